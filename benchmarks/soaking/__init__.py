"""A server in a process of its own, under faults and under more load than it can carry."""
