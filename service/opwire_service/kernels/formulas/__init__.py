"""Evaluation of operator formulas: resolved for a desc, in float64, and exactly."""
