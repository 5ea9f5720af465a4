"""Reports of a comparison: for terminals, for CI systems and as a page."""

from .junit import to_junit

__all__ = ["to_junit"]
