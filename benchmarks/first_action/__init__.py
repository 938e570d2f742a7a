"""How few steps of a model it takes until a robot can act."""
