"""Cumulative sums and products on a GPU."""
