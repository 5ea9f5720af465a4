"""Sums over windows: averages and norms, and the gradient of averages."""
