"""The screenshots in the documentation match what the script takes, and each of them is used."""

from __future__ import annotations

import pytest

from scripts.screenshots import FOLDER, take
from tests.support.paths import ROOT


@pytest.mark.thorough
def test_the_screenshot_script_takes_the_committed_pictures(tabs, console_url, tmp_path):
    take(tabs.browser, console_url, tmp_path)
    taken = {path.name for path in tmp_path.iterdir()}
    assert taken == {path.name for path in FOLDER.iterdir()}


def test_each_picture_is_used_in_the_documentation():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text("utf-8") for page in pages)
    assert [path.name for path in FOLDER.iterdir() if path.name not in text] == []
