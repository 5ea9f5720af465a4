"""Elements of one type as those of another."""
