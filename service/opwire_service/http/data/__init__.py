"""Routes with tensors: they read bodies as memory allows, and bypass the framework."""
