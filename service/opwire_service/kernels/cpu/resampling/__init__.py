"""Resampling and its gradients."""
