"""Quantization and its inverse by numpy on tiles."""
