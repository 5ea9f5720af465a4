"""The service on the network: the only package that knows HTTP and fastapi."""
