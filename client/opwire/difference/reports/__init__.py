"""Reports of a comparison: for terminals, for CI systems and as a page."""

from .html import to_html
from .junit import to_junit

__all__ = ["to_html", "to_junit"]
