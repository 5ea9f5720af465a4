"""How many examples Hypothesis tests draw: a number per test, scaled by the profile.

``small`` is for every run and draws the same examples each time; ``--hypothesis-profile=large`` draws ten times as
many, and different ones each time.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SMALL = 50
"""Examples of a test that does not specify a number."""


def examples(few: int) -> settings:
    """Returns settings for a test that draws ``few`` examples in the small profile."""
    assert settings.default is not None
    return settings(max_examples=max(1, few * settings.default.max_examples // SMALL))


def shared_examples(for_all: int, among: int) -> settings:
    """Returns settings for tests parametrized by operator that share a number of examples."""
    return examples(max(_FEWEST, for_all // among))


_FEWEST = 3


def request_examples(few: int) -> settings:
    """Returns settings for a test that sends its examples to a server, which may be slow."""
    return settings(examples(few), suppress_health_check=list(HealthCheck))
