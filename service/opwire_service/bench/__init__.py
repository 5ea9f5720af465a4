"""Measures a running server."""
