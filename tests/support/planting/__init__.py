"""Networks, a backend that is right but for planted faults, and the faults."""
