"""The scheduling policies of other systems, served and measured as ours are."""
