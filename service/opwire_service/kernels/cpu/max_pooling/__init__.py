"""Max pooling, its gradient, and max unpooling."""
