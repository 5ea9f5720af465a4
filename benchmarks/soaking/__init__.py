"""A server in a process of its own, under faults, under more load than it can carry, and under attack."""
