"""The verdict on a tensor that is not the exact one."""

from __future__ import annotations

from .causes import cause_of, kept_nan, mistake_of, tie_rule
from .evidence import Evidence
from .precision import precision_of
from .results import Verdict

_FAR = 4.0
"""The multiple of a likely error from which a known mistake that fits is meant rather than an unfavourable order."""


def verdict_of(evidence: Evidence) -> tuple[Verdict, str]:
    """Returns the verdict, and what the difference is like."""
    if evidence.is_likely(evidence.exact):
        rule = tie_rule(evidence)
        return (Verdict.WRONG, rule) if rule else (Verdict.EXPLAINED, "")
    reduced = precision_of(evidence)
    if reduced:
        return Verdict.REDUCED, reduced
    if evidence.beyond_possible == 0:
        mistake = mistake_of(evidence) if evidence.is_alone and evidence.excess > _FAR else ""
        said = "for an unfavourable order of the terms"
        return (Verdict.WRONG, mistake) if mistake else (Verdict.EXPLAINED, said)
    kept = kept_nan(evidence)
    if kept:
        return Verdict.EXPLAINED, kept
    return Verdict.WRONG, cause_of(evidence) if evidence.is_alone else ""
