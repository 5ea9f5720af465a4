"""Server processes: a single one, or several under a supervisor, with signals, logging and memory management."""
