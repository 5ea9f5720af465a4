"""Telemetry of requests: metrics, traces and the access log."""
