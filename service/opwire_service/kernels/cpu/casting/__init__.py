"""Conversion of elements between types."""
