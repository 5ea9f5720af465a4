"""Routes without tensors, which the framework handles."""
