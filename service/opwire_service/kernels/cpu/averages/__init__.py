"""Sums of windows: averages and norms, and the gradient of averages."""
