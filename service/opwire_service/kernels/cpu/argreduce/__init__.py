"""Minima and maxima, their indices, and the ordering of values behind them."""
