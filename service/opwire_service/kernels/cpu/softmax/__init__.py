"""Softmax, log-softmax and hardmax."""
