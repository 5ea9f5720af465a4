"""Generates the tables that compare DirectML's own results and times with those of opwire and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .figures import LIBRARIES, accuracy, accuracy_cell, rows, stored, versions
from .markdown import table

_ACCURACY = "accuracy-directml.json"
_TYPES = ("FLOAT32", "FLOAT16")


def functions(type_name: str) -> str:
    """Returns the errors of all libraries on the arguments that DirectML was given: one row per function."""
    return accuracy(_ACCURACY, type_name, ("opwire", "directml", *list(LIBRARIES)[1:]))


def operators() -> str:
    """Returns DirectML's errors in all other operators: one row per operator."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows(_ACCURACY):
        if row["group"] == "operators":
            found.setdefault(_short(row["name"]), {})[row["type"]] = row["libraries"]["directml"]
    made = [[name, *(accuracy_cell(types.get(each)) for each in _TYPES)] for name, types in found.items()]
    return table(["operator", *(f">{name}" for name in _TYPES)], made)


def accuracy_versions() -> str:
    """Describes the libraries."""
    return f"{versions(stored(_ACCURACY)['conditions']['versions'])}."


_VERDICTS = "directml-verdicts.json"
_COLUMNS = ("exact", "faithful", "within what floating point explains", "reduced precision", "wrong")


def verdicts() -> str:
    """Returns how DirectML's recorded results are judged: one row per operator."""
    titles = ("exact", "faithful", "explained", "reduced", "wrong")
    return table(["operator", *(f">{title}" for title in titles), "of these"], map(_verdict_row, rows(_VERDICTS)))


def _verdict_row(row: Mapping[str, Any]) -> list[str]:
    counts = [row["verdicts"].get(name, 0) for name in _COLUMNS]
    details = [f"{_DETAILS.get(name, name)}: {count}" for name, count in row["details"].items()]
    return [row["name"], *(f"{count:,}" if count else "" for count in counts), "; ".join(details)]


_DETAILS = {"machines": "the machines disagree", "undefined": "undefined", "accuracy": "coarse"}


def times() -> str:
    """Returns the times of DirectML and opwire on the same card: one row per case."""
    made = []
    for row in rows("directml.json"):
        own, theirs = (round(row["seconds"][each] * 1e6, 1) for each in ("opwire", "directml"))
        name = f"{_short(row['name'])} {row['case']}".strip()
        sizes = ", ".join(map(str, row["sizes"]))
        made.append([name, f"[{sizes}]", _shown(theirs), _shown(own), f"{theirs / own:.2f}"])
    return table(["FLOAT32", "sizes", ">DirectML, µs", ">opwire, µs", ">speedup"], made)


def _short(name: str) -> str:
    return name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")


def _shown(microseconds: float) -> str:
    return f"{microseconds:,.0f}" if microseconds == int(microseconds) else f"{microseconds:,}"


_PLANTED = "diff.json"


def planted() -> str:
    """Returns which of the planted faults `opwire diff` found and named: one row per kind of fault."""
    found = [row for row in rows(_PLANTED) if row["group"] == "faults"]
    counts = ("planted", "found", "named")
    total = ["**all**", *(str(sum(row[each] for row in found)) for each in counts)]
    made = [[row["name"], *(str(row[each]) for each in counts)] for row in found]
    return table(["fault", ">planted", ">found", ">named"], [*made, total])


def compared() -> str:
    """Returns the verdicts on ONNX Runtime as it is: one row per network."""
    titles = ("exact", "faithful", "explained", "reduced", "wrong")
    made = [
        [row["name"], *(str(row["verdicts"].get(name) or "") for name in _COLUMNS), f"{row['ratio']:.2f}"]
        for row in rows(_PLANTED)
        if row["group"] == "networks"
    ]
    return table(["network", *(f">{title}" for title in titles), ">time"], made)


REGIONS: dict[str, Callable[[], str]] = {
    "accuracy-directml-float32": lambda: functions("FLOAT32"),
    "accuracy-directml-float16": lambda: functions("FLOAT16"),
    "accuracy-directml-operators": operators,
    "accuracy-directml-versions": accuracy_versions,
    "diff-networks": compared,
    "diff-planted": planted,
    "directml-times": times,
    "directml-verdicts": verdicts,
}
"""The generated regions of the docs by name."""
