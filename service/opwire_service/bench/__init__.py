"""Benchmark of a running server."""
