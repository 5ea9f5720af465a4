"""Normalizations: by NumPy on tiles, or by a kernel on contiguous lines."""
