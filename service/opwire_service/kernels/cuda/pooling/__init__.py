"""Pooling by sums, pooling gradients, and unpooling."""
