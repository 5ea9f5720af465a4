"""RANDOM_GENERATOR in a compiled kernel."""
