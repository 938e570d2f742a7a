"""Time budgets: how much KV to give up for them, and what an overrun costs."""

__all__: list[str] = []
