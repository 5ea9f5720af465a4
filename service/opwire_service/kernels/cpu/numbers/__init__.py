"""Formats of numbers in compiled code: vectors, exact arithmetic and rounding."""
