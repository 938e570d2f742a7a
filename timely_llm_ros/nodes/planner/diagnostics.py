"""The planner's health as ROS diagnostics (REP-107). A suspended generation is no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from timely_llm_ros.msg import RobotState

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from timely_llm_ros.nodes.planner.ros_robot_link import RosRobotLink
    from timely_llm_ros.nodes.planner.topics import PlannerTopics
    from timely_llm_ros.planner import AdmissionState

FULL_SHARE = 0.95
"""Share of the KV capacity from which a warning is due: generations will be recomputed."""


class PlannerDiagnostics:
    """The health of the planner with that full name (no leading slash), its engine and robots."""

    def __init__(self, name: str, topics: PlannerTopics, links: Mapping[str, RosRobotLink]) -> None:
        self._name, self._topics, self._links = name, topics, links
        self._counted: Counter[str] = topics.counts.copy()
        self._spilled = self._refused = 0

    def message(
        self, *, active: bool, tasks: int, admission: AdmissionState | None = None
    ) -> DiagnosticArray:
        """Return the message with an empty header."""
        return DiagnosticArray(
            status=[
                self._planner(active, tasks),
                self._engine(active),
                self._kv_cache(),
                self._deadlines(),
                self._admission(admission),
                *self._servers(),
                *(self._robot(link) for link in self._links.values()),
            ]
        )

    def _planner(self, active: bool, tasks: int) -> DiagnosticStatus:
        state, counts = self._topics.state, self._topics.counts
        values = {'tasks': tasks, 'generations queued': state.queued if state else 0}
        for key in ('accepted', 'succeeded', 'aborted', 'canceled', 'refused'):
            values[key] = counts[key]
        text = f'{tasks} tasks' if active else 'not active'
        return self.status('queue', DiagnosticStatus.OK, text, values)

    def _engine(self, active: bool) -> DiagnosticStatus:
        info, state = self._topics.info, self._topics.state
        if info is None:
            level = DiagnosticStatus.ERROR if active else DiagnosticStatus.OK
            return self.status('engine', level, 'no engine', {})
        values: dict[str, object] = {'engine': info.engine, 'model': info.model}
        if state is not None:
            values |= {
                'running': state.running,
                'suspended': state.suspended,
                'held': state.held,
                'step time (s)': f'{state.step_s:.4f}',
                'background': state.background,
                'background steps interrupted': state.interrupted,
            }
        values['fallback plans'] = self._topics.counts['fallbacks']
        if self._topics.engine_error:
            text = f'failed, restarting: {self._topics.engine_error}'
            return self.status('engine', DiagnosticStatus.ERROR, text, values)
        if robots := self._topics.fallbacks.values():
            text = f'no answer: fallback plans of {", ".join(sorted(robots))}'
            return self.status('engine', DiagnosticStatus.ERROR, text, values)
        return self.status('engine', DiagnosticStatus.OK, 'serving', values)

    def _kv_cache(self) -> DiagnosticStatus:
        state = self._topics.state
        if state is None or not state.kv_capacity_tokens:
            return self.status('KV cache', DiagnosticStatus.OK, 'empty', {})
        share = (state.kv_tokens - state.spare_kv_tokens) / state.kv_capacity_tokens
        spilled, self._spilled = state.spilled - self._spilled, state.spilled
        tight = share >= FULL_SHARE or spilled > 0
        values = {
            'tokens': state.kv_tokens,
            'capacity (tokens)': state.kv_capacity_tokens,
            'dropped and recomputed': state.spilled,
            'recomputed before the robot was back': state.restored,
            'warm scenes': state.warm_scenes,
            'tokens of warm scenes': state.warm_tokens,
            'tasks that found a warm scene': state.warm_hits,
            'prompt tokens that these did not compute': state.warm_hit_tokens,
            'tokens written ahead of a value': state.ahead_tokens,
            'tokens written ahead of values that did not come': state.ahead_dropped_tokens,
        }
        level = DiagnosticStatus.WARN if tight else DiagnosticStatus.OK
        return self.status('KV cache', level, f'{share:.0%} in use', values)

    def _servers(self) -> list[DiagnosticStatus]:
        """Return the status of each server of an engine that has its model elsewhere."""
        state = self._topics.state
        servers = state.servers if state is not None else ()
        statuses = []
        for server in servers:
            values: dict[str, object] = {
                'generations': server.generations,
                'running': server.running,
                'step time (s)': f'{server.step_s:.4f}',
                'times lost': server.losses,
            }
            if server.well:
                level, text = DiagnosticStatus.OK, 'serving'
            else:
                # As long as another one serves, robots are planned for.
                others = any(other.well for other in servers)
                level = DiagnosticStatus.WARN if others else DiagnosticStatus.ERROR
                text = f'lost, tried again: {server.error}'
            statuses.append(self.status(f'server {server.url}', level, text, values))
        return statuses

    def _deadlines(self) -> DiagnosticStatus:
        counts = self._topics.counts
        late = counts['late'] - self._counted['late']
        self._counted = counts.copy()
        level = DiagnosticStatus.WARN if late else DiagnosticStatus.OK
        text = f'{late} late responses in the last second'
        return self.status('deadlines', level, text, {'late responses': counts['late']})

    def _admission(self, state: AdmissionState | None) -> DiagnosticStatus:
        """Return what is refused and why. To refuse is no fault; it is told where it is new."""
        if state is None:
            return self.status('admission', DiagnosticStatus.OK, 'nothing was asked', {})
        values: dict[str, object] = {'demand (of the engine)': f'{state.demand:.2f}'}
        for reason in ('robot', 'engine', 'price'):
            values[f'refused: {reason}'] = state.refused[reason]
        values['worthless after all'] = state.worthless
        for label, kind in state.kinds.items():
            count = kind.responses
            values[label] = (
                f'{kind.in_time / count:.0%} of {count} in time, {kind.kept / count:.0%} of the '
                f'promises kept, response {kind.expected_s / count:.2f} s expected, '
                f'{kind.achieved_s / count:.2f} s achieved'
            )
        refused = state.refused.total() - self._refused
        self._refused = state.refused.total()
        text = f'{state.demand:.0%} of the engine asked for, {refused} refused in the last second'
        return self.status('admission', DiagnosticStatus.OK, text, values)

    def _robot(self, link: RosRobotLink) -> DiagnosticStatus:
        if not link.available:
            level, text = DiagnosticStatus.ERROR, 'lost'
        elif link.halted:
            level, text = DiagnosticStatus.WARN, 'halted'
        elif link.inactive:
            level, text = DiagnosticStatus.WARN, 'inactive: its executor was not activated'
        elif link.phase == RobotState.SAFE:
            level, text = DiagnosticStatus.WARN, 'brought to its safe action'
        else:
            level, text = DiagnosticStatus.OK, 'there'
        values = {'had when it was met': link.found} if link.found else {}
        return self.status(f'robot {link.robot}', level, text, values)

    def status(
        self, item: str, level: bytes, message: str, values: Mapping[str, object]
    ) -> DiagnosticStatus:
        """Return the status of one part of the planner."""
        return DiagnosticStatus(
            name=f'{self._name}: {item}',
            hardware_id=self._topics.info.engine if self._topics.info else '',
            level=level,
            message=message,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
