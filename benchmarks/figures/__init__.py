"""TimelyLLM's experiments, one module per figure; ``benchmarks/timelyllm.py`` runs them."""
