"""Formulas of operators, as they are computed: resolved for a desc, in float64, and exactly."""
