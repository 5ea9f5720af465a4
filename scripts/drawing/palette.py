"""The colors of pictures: those of the console and the documentation, for browsers that show a picture by itself.

Within the documentation, pictures are part of the page and take its colors, so that they follow its color scheme.
"""

from __future__ import annotations

import re
from pathlib import Path

TOKENS = Path(__file__).parents[2] / "service" / "opwire_service" / "console" / "css" / "tokens.css"

_COLOR = re.compile(r"^\s*(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", re.MULTILINE)
STYLE = re.compile(r"<style>svg\{.*?</style>\n?")
"""The style element of a picture, which the documentation leaves out."""


def style(picture: str) -> str:
    """Returns the style element with the colors that a picture uses, in both color schemes."""
    colors = [each for each in _COLOR.findall(TOKENS.read_text(encoding="utf-8")) if f"var({each[0]})" in picture]
    light = "".join(f"{name}:{color};" for name, color, _ in colors)
    dark = "".join(f"{name}:{color};" for name, _, color in colors)
    return f"<style>svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>\n"


def with_colors(picture: str) -> str:
    """Returns a picture with its colors up to date."""
    bare = STYLE.sub("", picture)
    end = bare.index(">") + 1
    return f"{bare[:end]}\n{style(bare)}{bare[end:].lstrip()}"
