"""Pages, files and the OpenAPI document, which are the same for all clients."""
