"""Generates the tables of predicted speeds on other GPUs from the result file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import exp, log
from typing import Any

from .figures import Row, of_copy, rows, stored
from .markdown import table

_RESULTS = "rates.json"
_ON_CARD, _MEASURED = ("elementwise-cuda.json", "families-cuda.json"), "H200"
"""Results of a card, in the same terms."""

_PRODUCT = "GEMM"
"""The group whose ratio is that of its time to the time of FLOAT32 arithmetic at its peak."""


def cards() -> str:
    """Returns what is known of each card, and from where."""
    made = (
        [
            card["name"],
            card["processors"],
            card["clock"],
            f"1/{card['float64_ratio']}",
            f"{card['bandwidth']:,}",
            f"{card['bytes']:,g}",
            card["source"],
        ]
        for card in _cards()
    )
    heads = [
        ">multiprocessors",
        ">clock, GHz",
        ">float64 to FLOAT32",
        ">memory, GB/s",
        ">INT8, 10<sup>12</sup>/s",
        "from",
    ]
    return table(["card", *heads], made)


def rates() -> str:
    """Returns the fraction of copy speed of each family on each card: the mean, and the lowest if that is less."""
    names = [card["name"] for card in _cards()]
    groups: dict[str, list[Row]] = {}
    for row in rows(_RESULTS):
        groups.setdefault(row["group"], []).append(row)
    measured = _measured()
    made = []
    for group, found in groups.items():
        if group == _PRODUCT:
            shown = [f"{1 / found[0]['cards'][name]['ratio']:.2f}" for name in names]
        else:
            shown = [_fraction(row["cards"][name]["ratio"] for row in found) for name in names]
        also = [measured[_key(row)] for row in found if _key(row) in measured]
        made.append([group, len(found), *shown, _fraction(also) if len(also) == len(found) else ""])
    return table(["", ">cases", *(f">{name}" for name in names), f">measured, {_MEASURED}"], made)


def _measured() -> dict[tuple[str, ...], float]:
    return {_key(row): of_copy(row) for name in _ON_CARD for row in rows(name)}


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("group", "name", "type", "layout"))


def _fraction(ratios: Iterable[float]) -> str:
    found = list(ratios)
    mean, least = f"{exp(sum(map(log, found)) / len(found)):.2f}", f"{min(found):.2f}"
    return mean if mean == least else f"{mean} ({least})"


def _cards() -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = stored(_RESULTS)["conditions"]["cards"]
    return found


REGIONS: dict[str, Callable[[], str]] = {"cuda-cards": cards, "cuda-rates": rates}
"""Generators of page regions, by name."""
