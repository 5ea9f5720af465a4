"""Minima and maxima, their indices, and the order of values behind them."""
