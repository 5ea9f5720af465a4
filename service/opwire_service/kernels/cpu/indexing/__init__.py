"""Gathers, scatters and sequence reversal by index."""
