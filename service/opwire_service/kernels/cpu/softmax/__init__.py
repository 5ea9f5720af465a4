"""Softmax, its logarithm and the position of the maximum."""
