"""The small language model that plans: its data, its training and its evaluation."""
