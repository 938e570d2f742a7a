"""The commands that look at what a model is told and at what it writes."""
