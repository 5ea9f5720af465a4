"""Running sums and products on a card."""
