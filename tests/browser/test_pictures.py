"""The pictures of the documentation can be taken of the pages as they are, and each of them is shown somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.screenshots import FOLDER, take

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
def test_the_pictures_of_the_documentation_are_those_that_are_taken(tabs, console_url, tmp_path):
    take(tabs.browser, console_url, tmp_path)
    taken = {path.name for path in tmp_path.iterdir()}
    assert taken == {path.name for path in FOLDER.iterdir()}


def test_each_picture_is_shown():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    assert [path.name for path in FOLDER.iterdir() if path.name not in text] == []
