"""Rows that are normalized together: softmax, hardmax, and normalizations by statistics, lengths and neighbours."""
