"""Numbers that are computed as they are written: sequences, and pictures scaled."""
