"""How many examples a test draws: a number of its own, which grows with hypothesis' profile.

``small`` is for every run, and draws the same each time; ``--hypothesis-profile=large`` draws ten times as many, others
each time.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SMALL = 50
"""Examples of a test that does not say how many."""


def examples(few: int) -> settings:
    """Settings for a test that draws few examples in the small profile."""
    assert settings.default is not None
    return settings(max_examples=max(1, few * settings.default.max_examples // SMALL))


def shared_examples(for_all: int, among: int) -> settings:
    """Settings for a test of each of many operators, which draw so many examples together, but each a few."""
    return examples(max(_FEWEST, for_all // among))


_FEWEST = 3


def request_examples(few: int) -> settings:
    """Settings for a test that sends what it draws to a server, which may take long to draw or to answer."""
    return settings(examples(few), suppress_health_check=list(HealthCheck))
