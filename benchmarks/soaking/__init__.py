"""A server in its own process, under faults, under more load than it can carry, and under attack."""
