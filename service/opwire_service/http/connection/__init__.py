"""HTTP/1.x: connections, the requests on them, and how they begin and end."""
