"""Support for the cluster benchmark and the cluster tests."""
