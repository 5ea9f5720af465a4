"""Request processing below HTTP: checks, schedules, runs and encodes requests within the server's limits."""
