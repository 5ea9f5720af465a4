"""Reductions: exact sums, products, norms and logarithms of sums."""
