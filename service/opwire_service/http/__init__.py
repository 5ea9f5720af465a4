"""The HTTP layer of the service, and the only package that uses FastAPI."""
