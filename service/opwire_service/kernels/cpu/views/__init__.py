"""Movements as copies between strided views."""
