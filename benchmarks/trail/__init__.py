"""TRAIL: scheduling by remaining lengths."""
