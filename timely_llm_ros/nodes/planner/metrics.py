"""What the planner tells Prometheus, from the records that its diagnostics are made of."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from timely_llm_ros.nodes.planner.response_times import BOUNDS_S
from timely_llm_ros.ros import Distribution, Metric
from timely_llm_ros.ros.conversions import REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from timely_llm_ros.nodes.planner.ros_robot_link import RosRobotLink
    from timely_llm_ros.nodes.planner.topics import PlannerTopics
    from timely_llm_ros.planner import AdmissionState
    from timely_llm_ros.ros import Samples

_CLASS = ('skill_set', 'expected_response_s')

ACTIVE = Metric('timely_planner_active', 'gauge', 'Whether the planner takes goals.')
TASKS = Metric('timely_planner_tasks', 'gauge', 'Tasks that have not ended.')
ACCEPTED = Metric('timely_planner_tasks_accepted_total', 'counter', 'Tasks that were taken.')
REFUSED = Metric(
    'timely_planner_tasks_refused_total', 'counter', 'Goals that were not taken.', ('reason',)
)
ENDED = Metric(
    'timely_planner_tasks_ended_total',
    'counter',
    'Tasks that ended, by error code in words; "none" is success.',
    ('reason',),
)
FALLBACKS = Metric(
    'timely_planner_fallbacks_total',
    'counter',
    'Tasks whose robots did a fallback plan, because no engine answered.',
)
REPLANS = Metric(
    'timely_planner_replans_total',
    'counter',
    'Further plans of goals whose skill failed on its robot; each is a task of its own here.',
)
RESPONSES = Metric(
    'timely_planner_response_seconds',
    'histogram',
    'From the arrival of a task to the first action of its robot.',
    _CLASS,
)
IN_TIME = Metric(
    'timely_planner_responses_in_time_total',
    'counter',
    'Responses within the time that the task expected.',
    _CLASS,
)
UTILITY = Metric(
    'timely_planner_utility', 'gauge', 'Time utility that ended tasks earned, since the start.'
)
POSSIBLE = Metric(
    'timely_planner_possible_utility', 'gauge', 'The most that they could have earned.'
)
DEMAND = Metric(
    'timely_planner_demand_ratio',
    'gauge',
    'Engine time that is asked for over what there is; above 1 tasks will be late or refused.',
)
UNWORTHY = Metric(
    'timely_planner_admission_refused_total',
    'counter',
    'Tasks refused for their worth, by what stood against them: robot, engine or price.',
    ('against',),
)
WORTHLESS = Metric(
    'timely_planner_tasks_worthless_total',
    'counter',
    'Tasks that were taken and ended because they could not be worth more than their floor.',
)
ROBOT_AVAILABLE = Metric(
    'timely_planner_robot_available',
    'gauge',
    "Whether the planner hears the robot's executor and that has contact with the robot.",
    ('robot',),
)
ROBOT_HALTED = Metric(
    'timely_planner_robot_halted', 'gauge', 'Whether the robot is halted.', ('robot',)
)
ROBOT_INACTIVE = Metric(
    'timely_planner_robot_inactive', 'gauge', "Whether the robot's executor is not active.",
    ('robot',),
)  # fmt: skip
ENGINE_UP = Metric('timely_engine_up', 'gauge', 'Whether the engine is loaded and serves.')
ENGINE = Metric(
    'timely_engine_info', 'gauge', 'Which engine and model there is; always 1.', ('engine', 'model')
)
GENERATIONS = Metric(
    'timely_engine_generations',
    'gauge',
    'Generations by phase: queued ones have not started, held ones wait for a value of a robot.',
    ('phase',),
)
KV = Metric('timely_engine_kv_tokens', 'gauge', 'Tokens whose keys and values are held for tasks.')
KV_CAPACITY = Metric('timely_engine_kv_capacity_tokens', 'gauge', 'The bound on them.')
SPILLED = Metric(
    'timely_engine_kv_spilled_total',
    'counter',
    'Times that a generation lost its keys and values for want of room, to be computed again.',
)
STEP = Metric('timely_engine_step_seconds', 'gauge', 'Duration of the latest step.')
BUSY = Metric('timely_engine_busy_seconds_total', 'counter', 'Time spent in steps.')
INTERRUPTED = Metric(
    'timely_engine_background_steps_interrupted_total',
    'counter',
    "Steps of the background that were interrupted for a robot's task.",
)
SERVER_UP = Metric('timely_server_up', 'gauge', 'Whether a model server serves.', ('server',))
SERVER_STEP = Metric(
    'timely_server_step_seconds', 'gauge', 'Between the latest two tokens of one.', ('server',)
)
SERVER_RUNNING = Metric(
    'timely_server_generations', 'gauge', 'Generations that it serves now.', ('server',)
)
SERVER_LOSSES = Metric(
    'timely_server_losses_total', 'counter', 'Times that it was lost.', ('server',)
)

PLANNER_METRICS = tuple(value for value in globals().copy().values() if isinstance(value, Metric))
"""Every metric of the planner."""


def planner_samples(
    topics: PlannerTopics,
    links: Mapping[str, RosRobotLink],
    *,
    active: bool,
    tasks: int,
    admission: AdmissionState | None,
) -> Samples:
    """Return the planner's figures; the arguments are those of its diagnostics."""
    responses = list(topics.responses)
    found: dict[Metric, list[tuple[tuple[str, ...], float | Distribution]]] = {
        ACTIVE: [((), active)],
        TASKS: [((), tasks)],
        ACCEPTED: [((), topics.counts['accepted'])],
        REFUSED: [((word,), topics.refusals[code]) for code, word in REASONS.items()],
        ENDED: [((word,), topics.endings[code]) for code, word in REASONS.items()],
        FALLBACKS: [((), topics.counts['fallbacks'])],
        REPLANS: [((), topics.counts['replans'])],
        RESPONSES: [(key, _distribution(one.counts, one.total_s)) for key, one in responses],
        IN_TIME: [(key, one.in_time) for key, one in responses],
        UTILITY: [((), topics.utility)],
        POSSIBLE: [((), topics.possible_utility)],
        ROBOT_AVAILABLE: [((link.robot,), link.available) for link in links.values()],
        ROBOT_HALTED: [((link.robot,), link.halted) for link in links.values()],
        ROBOT_INACTIVE: [((link.robot,), link.inactive) for link in links.values()],
        ENGINE_UP: [((), topics.info is not None and not topics.engine_error)],
    }
    if admission is not None:
        found |= {
            DEMAND: [((), admission.demand)],
            UNWORTHY: [((why,), admission.refused[why]) for why in ('robot', 'engine', 'price')],
            WORTHLESS: [((), admission.worthless)],
        }
    if topics.info is not None:
        found[ENGINE] = [((topics.info.engine, topics.info.model), 1.0)]
    state = topics.state
    if state is not None:
        phases = ('queued', 'running', 'suspended', 'held', 'background')
        found |= {
            GENERATIONS: [((phase,), getattr(state, phase)) for phase in phases],
            KV: [((), state.kv_tokens - state.spare_kv_tokens)],
            KV_CAPACITY: [((), state.kv_capacity_tokens)],
            SPILLED: [((), state.spilled)],
            STEP: [((), state.step_s)],
            BUSY: [((), state.busy_s)],
            INTERRUPTED: [((), state.interrupted)],
        }
        if state.servers:
            found |= {
                SERVER_UP: [((server.url,), server.well) for server in state.servers],
                SERVER_STEP: [((server.url,), server.step_s) for server in state.servers],
                SERVER_RUNNING: [((server.url,), server.running) for server in state.servers],
                SERVER_LOSSES: [((server.url,), server.losses) for server in state.servers],
            }
    return found


def _distribution(counts: list[int], total: float) -> Distribution:
    bounds = (*map(str, BOUNDS_S), '+Inf')
    return Distribution(tuple(zip(bounds, accumulate(counts), strict=True)), total)
