"""How a fleet is operated: what watching costs, and what a supervisor does."""
