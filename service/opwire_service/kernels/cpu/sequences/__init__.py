"""Operators that generate numbers as they write them: sequences, and scaled images."""
