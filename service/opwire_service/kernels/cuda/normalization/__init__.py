"""Normalization of rows: softmax, hardmax, batch and mean-variance, Lp and local response normalization."""
