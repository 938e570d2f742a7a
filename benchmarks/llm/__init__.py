"""How well general language models plan."""
