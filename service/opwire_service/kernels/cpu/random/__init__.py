"""RANDOM_GENERATOR by a compiled kernel."""
