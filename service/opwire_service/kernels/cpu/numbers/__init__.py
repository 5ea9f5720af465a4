"""Number formats in compiled code: vectors, exact arithmetic and rounding."""
