"""Compiled kernels: how they are made, kept on disk and found."""
