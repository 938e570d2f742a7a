"""The parameters of the planner node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

from timely_llm_ros.budget import MAX_EVICTED, Decides
from timely_llm_ros.engines import ENGINES
from timely_llm_ros.engines.core import EvictionName
from timely_llm_ros.engines.tokens import MAX_SEED, MAX_TEMPERATURE, Sampling
from timely_llm_ros.prediction.lengths import PREDICTORS
from timely_llm_ros.ros import parameter
from timely_llm_ros.scheduling import (
    AGE_BOUND_S,
    BACKGROUND_BATCH,
    BACKGROUND_CHUNK,
    BACKGROUND_STEP_S,
    POLICIES,
    Admission,
    SchedulingOptions,
    ServingMode,
)
from timely_llm_ros.utility import NORMAL


@dataclass(frozen=True, slots=True)
class PlannerParameters:
    """Parameters of the planner node. Those that are not read-only take effect at configuration."""

    robots: tuple[str, ...] = parameter(
        (),
        'The fleet, one "name:skill_set" each; the skill set is the name of a shipped one or a '
        'path.',
    )
    autostart: bool = parameter(
        True, 'Configure and activate at start; the program ends if that fails.'
    )
    engine: str = parameter(
        'torch',
        'What generates plans: torch in a process of its own, vLLM in processes of its own, or the '
        'simulated one, which has no model: it takes the instruction for the plan and writes that.',
        choices=tuple(ENGINES),
        read_only=False,
    )
    model_path: str = parameter(
        '', 'Folder of the model in Hugging Face format; "" for the shipped one.', read_only=False
    )
    mode: str = parameter(
        'segmented',
        'How plans are served: segment by segment with suspension, as a stream without, or whole.',
        choices=get_args(ServingMode),
        read_only=False,
    )
    policy: str = parameter(
        'least_loss', 'What ranks generations.', choices=tuple(POLICIES), read_only=False
    )
    admission: str = parameter(
        'lookahead',
        'How many of them run together: as many as leave every deadline that can still be met, '
        'each that gains more than the others lose by it, always max_running, or as TimelyLLM '
        'prints it.',
        choices=get_args(Admission),
        read_only=False,
    )
    interrupts: bool = parameter(
        False,
        'Whether a segment in the making may be interrupted for a better-ranked one.',
        read_only=False,
    )
    age_bound_s: float = parameter(
        AGE_BOUND_S,
        'Whose robot has waited longer than this (s) goes first, whatever the policy; 0 for no '
        'bound.',
        minimum=0.0,
        maximum=86400.0,
        read_only=False,
    )
    network_s: float = parameter(
        0.0,
        'One-way time to a robot (s), by which a segment is due earlier.',
        minimum=0.0,
        maximum=10.0,
        read_only=False,
    )
    fills: bool = parameter(
        False,
        'Whether, with admission lookahead, a generation whose prompt is computed joins wherever '
        'there is room: more plans, each urgent one a little later.',
        read_only=False,
    )
    profiled_generation_s: float = parameter(
        0.0,
        'Engine time that every segment is taken to cost (s); 0 to learn it.',
        minimum=0.0,
        maximum=3600.0,
        read_only=False,
    )
    preemption_share: float = parameter(
        0.8,
        'Policy srpt may interrupt a generation until it has this share of the tokens first '
        'predicted.',
        minimum=0.0,
        maximum=1.0,
        read_only=False,
    )
    predictors: str = parameter(
        'auto',
        'Folder of the predictors of plan lengths, for engine torch; "auto" for those that came '
        'with the model under policy srpt, "off" for none.',
        read_only=False,
    )
    max_running: int = parameter(
        8, 'Most generations in one engine step.', minimum=1, maximum=1024, read_only=False
    )
    prefill_chunk: int = parameter(
        0,
        'Most prompt tokens in one engine step, with vllm all tokens of a step; 0 for 128, with '
        'vllm 2048. Fewer let urgent tasks begin sooner, more take less time in all.',
        minimum=0,
        maximum=65536,
        read_only=False,
    )
    max_kv_tokens: int = parameter(
        32768, 'Most tokens whose KV is held.', minimum=256, maximum=2**31 - 1, read_only=False
    )
    max_tokens: int = parameter(
        512, 'Length limit of a plan in tokens.', minimum=1, maximum=65536, read_only=False
    )
    constrained: bool = parameter(
        True, "Mask the model's choices with the skill set's grammar.", read_only=False
    )
    temperature: float = parameter(
        0.0,
        'How tokens are chosen: 0 for the likeliest always, above to draw them, with 1 by the '
        "model's own probabilities.",
        minimum=0.0,
        maximum=MAX_TEMPERATURE,
        read_only=False,
    )
    top_p: float = parameter(
        1.0,
        'Tokens are drawn from the likeliest ones that together have this probability.',
        minimum=0.001,
        maximum=1.0,
        read_only=False,
    )
    seed: int = parameter(
        0,
        "Of drawn tokens. Engine torch draws by seed, task id and a token's number alone, so "
        'suspension changes nothing.',
        minimum=0,
        maximum=MAX_SEED,
        read_only=False,
    )
    device: str = parameter('cpu', 'Where torch computes, e.g. cpu or cuda.', read_only=False)
    dtype: str = parameter(
        'float32',
        "The model's number format.",
        choices=('float32', 'bfloat16', 'float16'),
        read_only=False,
    )
    threads: int = parameter(
        1, 'Threads that torch computes with.', minimum=1, maximum=256, read_only=False
    )
    min_step_s: float = parameter(
        0.0,
        'Least duration of an engine step (s): paces a small model to the step time of a larger '
        'one.',
        minimum=0.0,
        maximum=10.0,
        read_only=False,
    )
    server_urls: tuple[str, ...] = parameter(
        (),
        'Engine openai: the servers that generate, for example "https://gpu-1:8000"; model_path is '
        'then the folder of their tokenizer.',
        read_only=False,
    )
    server_model: str = parameter(
        '',
        'Engine openai: name under which the servers serve the model; "" for the only one that '
        'they serve.',
        read_only=False,
    )
    server_api_key_file: str = parameter(
        '',
        'Engine openai: file that holds the API key; "" for the environment variable '
        'TIMELY_LLM_API_KEY.',
        read_only=False,
    )
    server_ca_file: str = parameter(
        '',
        'Engine openai: certificates (PEM) that sign those of the servers; "" for the system\'s.',
        read_only=False,
    )
    server_connect_timeout_s: float = parameter(
        3.0,
        'Engine openai: how long a connection may take (s).',
        minimum=0.05,
        maximum=60.0,
        read_only=False,
    )
    server_silence_s: float = parameter(
        30.0,
        'Engine openai: how long a server may take for the next token (s) before it counts as '
        'lost and others go on with its generations.',
        minimum=0.1,
        maximum=3600.0,
        read_only=False,
    )
    server_health_period_s: float = parameter(
        2.0,
        'Engine openai: how often each server is asked whether it is well (s).',
        minimum=0.05,
        maximum=3600.0,
        read_only=False,
    )
    server_start_limit_s: float = parameter(
        120.0,
        'Engine openai: how long the first server may take to answer at configuration (s).',
        minimum=0.0,
        maximum=3600.0,
        read_only=False,
    )
    server_give_up_s: float = parameter(
        60.0,
        'Engine openai: with no server for so long (s), the generations end with an error.',
        minimum=0.0,
        maximum=86400.0,
        read_only=False,
    )
    server_priority: bool = parameter(
        False,
        "Engine openai: send each request's due time as its priority, for servers that several "
        'planners share; they must run with --scheduling-policy priority.',
        read_only=False,
    )
    profile: str = parameter(
        'auto',
        'How long prompts and steps take, which time budgets are checked against: a file that '
        '`timely-llm profile` wrote, "auto" to measure coarsely when the model is loaded (some '
        'seconds), "" to keep budgets by the clock alone.',
        read_only=False,
    )
    length_predictor: str = parameter(
        'empirical',
        'What predicts response lengths for time budgets, and for policy srpt on engines other '
        "than torch: earlier plans for scenes of that size, or the model's own predictor, which "
        'reads the prompt.',
        choices=tuple(PREDICTORS),
        read_only=False,
    )
    eviction: str = parameter(
        'snapkv',
        "What chooses which of a prompt's tokens keep their KV when a time budget asks for "
        'eviction; "" for no eviction: prompts are trimmed and plans cut off instead.',
        choices=('', *get_args(EvictionName)),
        read_only=False,
    )
    budget_max_evicted: float = parameter(
        MAX_EVICTED,
        "Largest share of a prompt's KV that a time budget may evict.",
        minimum=0.0,
        maximum=0.999,
        read_only=False,
    )
    budget_pessimism: float = parameter(
        0.0,
        'k of TimeBill: the worst case has k times the predicted length; 0 takes the length that '
        'budget_coverage of such plans do not exceed.',
        minimum=0.0,
        maximum=1000.0,
        read_only=False,
    )
    budget_coverage: float = parameter(
        0.95,
        'Share of single prompts, steps and plan lengths that the worst case covers.',
        minimum=0.01,
        maximum=0.999,
        read_only=False,
    )
    budget_eviction: str = parameter(
        'score',
        'What decides how much a time budget evicts: score weighs the chance to end in time '
        'against what eviction costs; worst_case takes the least with which the worst case fits, '
        'and weighs where none does; most evicts budget_max_evicted then, as TimeBill.',
        choices=get_args(Decides),
        read_only=False,
    )
    max_queue_per_robot: int = parameter(
        8,
        "Tasks that may queue behind a robot's current one; a further one is refused.",
        minimum=0,
        maximum=1024,
        read_only=False,
    )
    background_prompts: str = parameter(
        '',
        'File of prompts (JSON lines) whose plans are made in the engine time that no robot needs; '
        '"" for none.',
        read_only=False,
    )
    background_answers: str = parameter(
        '',
        'File to which their answers are appended; what is in it is not done again. "" for the '
        'name of the prompts with ".answers" behind it.',
        read_only=False,
    )
    background_batch: int = parameter(
        BACKGROUND_BATCH,
        'Most background generations in one engine step.',
        minimum=1,
        maximum=1024,
        read_only=False,
    )
    background_chunk: int = parameter(
        BACKGROUND_CHUNK,
        'Most prompt tokens of theirs in one engine step.',
        minimum=1,
        maximum=65536,
        read_only=False,
    )
    background_step_s: float = parameter(
        BACKGROUND_STEP_S,
        'How long an engine step of theirs should last at most (s) where the engine cannot '
        "interrupt it, so that a robot's task may have to wait for it.",
        minimum=0.0001,
        maximum=10.0,
        read_only=False,
    )
    default_expected_response_s: float = parameter(
        NORMAL.expected_response_s,
        'Default time utility of a task: expected response time (s).',
        minimum=0.0,
        maximum=3600.0,
        read_only=False,
    )
    default_slope_per_s: float = parameter(
        NORMAL.slope_per_s,
        'Default time utility of a task: utility lost per second after that, at most 0.',
        minimum=-1e6,
        maximum=0.0,
        read_only=False,
    )
    default_peak: float = parameter(
        NORMAL.peak,
        'Default time utility of a task: highest utility.',
        minimum=1e-9,
        maximum=1e6,
        read_only=False,
    )
    robot_timeout_s: float = parameter(
        1.0,
        "Silence of a robot's executor (s) that counts as its loss.",
        minimum=0.2,
        maximum=60.0,
        read_only=False,
    )
    stop_limit_s: float = parameter(
        5.0,
        'How long a robot may take to confirm that it stopped (s).',
        minimum=0.1,
        maximum=60.0,
        read_only=False,
    )
    load_limit_s: float = parameter(
        300.0,
        'How long the engine may take to load its model (s).',
        minimum=1.0,
        maximum=3600.0,
        read_only=False,
    )
    result_timeout_s: int = parameter(
        900,
        "How long a finished task's result is kept for clients that ask late (s).",
        minimum=1,
        maximum=86400,
    )

    @property
    def sampling(self) -> Sampling:
        """How tokens are chosen.

        Raises:
            ConfigurationError: A value is out of range.
        """
        return Sampling(self.temperature, self.top_p, self.seed)

    @property
    def scheduling(self) -> SchedulingOptions:
        """The scheduler's further options.

        Raises:
            ConfigurationError: A value is out of range.
        """
        return SchedulingOptions(
            admission=cast('Admission', self.admission),
            interrupts=self.interrupts,
            age_bound_s=self.age_bound_s or None,
            network_s=self.network_s,
            fills=self.fills,
            profiled_generation_s=self.profiled_generation_s or None,
            preemption_share=self.preemption_share,
            background_batch=self.background_batch,
            background_chunk=self.background_chunk,
            background_step_s=self.background_step_s,
        )
