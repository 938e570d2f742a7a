"""A pipeline of stages and the links between them, simulated.

Each stage computes one micro-batch at a time and each link carries one at a time, in the order in
which they come; so a whole run follows from a few additions and maxima per micro-batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timely_llm_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from timely_llm_ros.scheduling import LinearCosts


class Pipeline:
    """Stages and links that are all free at time 0.

    Args:
        stages: How many stages.
        costs: What a micro-batch costs on a stage and on a link.
        return_s: A sampled token's way from the last stage back to the first.
        serial_links: Whether a link carries one micro-batch at a time.

    Raises:
        ConfigurationError: There is no stage.
    """

    def __init__(
        self,
        stages: int,
        costs: LinearCosts,
        *,
        return_s: float = 0.0,
        serial_links: bool = True,
    ) -> None:
        if stages < 1:
            raise ConfigurationError(f'stages {stages}: expected at least 1')
        self._costs = costs
        self._return_s = return_s
        self._serial_links = serial_links
        self._stage_free_s = [0.0] * stages
        self._link_free_s = [0.0] * stages
        self.busy_s = 0.0
        """How long each stage has computed (s): every one computes every micro-batch."""
        self.held_s = 0.0
        """How long each stage but the last was held up by sending (s)."""

    @property
    def stage_free_s(self) -> tuple[float, ...]:
        """When each stage will have done all that it was given."""
        return tuple(self._stage_free_s)

    def run(self, tokens: float, at_s: float, context_tokens: float = 0.0) -> float:
        """Send a micro-batch in and return when its tokens are back at the first stage.

        Args:
            tokens: Its size.
            at_s: When it is ready for the first stage, not before any earlier one.
            context_tokens: Tokens of context that it attends to.
        """
        alone_s = self._costs.compute_s(tokens)
        compute_s = alone_s + self._costs.attend_s(context_tokens)
        transfer_s = self._costs.transfer_s(tokens)
        held_s = self._costs.occupied_s(tokens) - alone_s
        stage_free_s, link_free_s = self._stage_free_s, self._link_free_s
        last = len(stage_free_s) - 1
        for stage in range(last + 1):
            free_s = stage_free_s[stage]
            at_s = (free_s if free_s > at_s else at_s) + compute_s
            stage_free_s[stage] = at_s
            if stage < last:
                stage_free_s[stage] += held_s
                free_s = link_free_s[stage]
                if self._serial_links and free_s > at_s:
                    at_s = free_s
                at_s += transfer_s
                link_free_s[stage] = at_s
        self.busy_s += compute_s
        self.held_s += held_s
        return at_s + self._return_s
