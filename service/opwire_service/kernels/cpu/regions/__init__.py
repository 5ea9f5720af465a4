"""Pooling and alignment of regions of interest."""
