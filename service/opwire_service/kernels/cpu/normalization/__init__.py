"""Normalizations by numpy on tiles."""
