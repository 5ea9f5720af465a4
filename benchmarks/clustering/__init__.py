"""What the benchmark of a cluster, and its tests, need besides the server."""
