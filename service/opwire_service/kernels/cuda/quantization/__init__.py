"""Numbers as integers with a scale and a zero point."""
