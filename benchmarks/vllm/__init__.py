"""vLLM with our scheduler beside vLLM without."""
