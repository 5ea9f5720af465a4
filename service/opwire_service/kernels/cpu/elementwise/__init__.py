"""Operators that work on each element alone, by NumPy over tiles."""
