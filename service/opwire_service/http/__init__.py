"""The HTTP layer of the service: the only package that depends on HTTP and FastAPI."""
