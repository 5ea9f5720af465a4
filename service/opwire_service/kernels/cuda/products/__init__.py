"""Matrix products and convolutions on a card: float64 sums with bounds on their errors, or exact sums."""
