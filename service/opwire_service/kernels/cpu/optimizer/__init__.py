"""ADAM_OPTIMIZER by numpy on tiles."""
