"""How a plan is cut into units of work and spread over threads."""
