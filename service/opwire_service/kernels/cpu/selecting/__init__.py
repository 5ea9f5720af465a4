"""Selection of elements by value: top-k and nonzero coordinates."""
