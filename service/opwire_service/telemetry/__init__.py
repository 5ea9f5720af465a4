"""What is told of requests: metrics, traces and the access log."""
