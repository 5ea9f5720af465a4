"""Operators that work on each element alone: small tensors by NumPy, larger ones by kernels made for the formula."""
