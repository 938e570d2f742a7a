"""Tasks of others: whether their right plans survive our way, and what serving them costs."""
