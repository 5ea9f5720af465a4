"""Who may use the server: API keys, and the origins of pages."""
