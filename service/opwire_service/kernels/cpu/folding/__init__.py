"""Unfolds images to columns of blocks, and folds them back."""
