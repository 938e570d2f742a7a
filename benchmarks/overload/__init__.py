"""More load than can be served: what is earned, by whom, and what no schedule exceeds."""
