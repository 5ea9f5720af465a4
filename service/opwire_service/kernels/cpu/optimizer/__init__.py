"""ADAM_OPTIMIZER by NumPy on tiles."""
