"""Max pooling."""
