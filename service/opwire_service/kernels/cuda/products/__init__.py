"""Matrix products and convolutions on the GPU: float64 sums with error bounds, or exact sums."""
