"""Products of matrices and convolutions on a card: float64 sums with a bound on their error, summed exactly elsewhere."""
