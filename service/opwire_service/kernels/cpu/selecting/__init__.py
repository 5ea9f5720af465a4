"""Elements that are chosen by their values."""
