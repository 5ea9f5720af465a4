"""Generates the tables that compare DirectML's own results and times with those of opwire and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .figures import LIBRARIES, accuracy_cell, stored, versions
from .markdown import table

_ACCURACY = "accuracy-directml.json"
_TYPES = ("FLOAT32", "FLOAT16")


def functions(type_name: str) -> str:
    """Returns the errors of all libraries on the arguments that DirectML was given: one row per function."""
    titles = {"opwire": LIBRARIES["opwire"], "directml": "DirectML", **LIBRARIES}
    rows = [
        [_short(row["function"]), *(accuracy_cell(row["libraries"].get(library)) for library in titles)]
        for row in stored(_ACCURACY)["rows"]
        if row["type"] == type_name
    ]
    return table(["function", *(f">{title}" for title in titles.values())], rows)


def operators() -> str:
    """Returns DirectML's errors in all other operators: one row per operator."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in stored(_ACCURACY)["operators"]:
        found.setdefault(_short(row["operator"]), {})[row["type"]] = row
    rows = [[name, *(accuracy_cell(types.get(each)) for each in _TYPES)] for name, types in found.items()]
    return table(["operator", *(f">{name}" for name in _TYPES)], rows)


def accuracy_versions() -> str:
    """Describes the libraries."""
    return f"{versions(stored(_ACCURACY)['versions'])}."


_VERDICTS = "directml-verdicts.json"
_COLUMNS = ("exact", "faithful", "within what floating point explains", "reduced precision", "wrong")


def verdicts() -> str:
    """Returns how DirectML's recorded results are judged: one row per operator."""
    rows = [_verdict_row(row) for row in stored(_VERDICTS)["operators"]]
    titles = ("exact", "faithful", "explained", "reduced", "wrong")
    return table(["operator", *(f">{title}" for title in titles), "of these"], rows)


def _verdict_row(row: Mapping[str, Any]) -> list[str]:
    counts = [row["verdicts"].get(name, 0) for name in _COLUMNS]
    details = [f"{_DETAILS.get(name, name)}: {count}" for name, count in row["details"].items()]
    return [row["operator"], *(f"{count:,}" if count else "" for count in counts), "; ".join(details)]


_DETAILS = {"machines": "the machines disagree", "undefined": "undefined", "accuracy": "coarse"}


def times() -> str:
    """Returns the times of DirectML and opwire on the same card: one row per case."""
    rows = []
    for row in stored("directml-nvidia-h100.json")["rows"]:
        own, theirs = row["opwire_us"], row["directml_us"]
        name = f"{_short(row['operator'])} {row['case']}".strip()
        sizes = ", ".join(map(str, row["sizes"]))
        rows.append([name, f"[{sizes}]", _shown(theirs), _shown(own), f"{theirs / own:.2f}"])
    return table(["FLOAT32", "sizes", ">DirectML, µs", ">opwire, µs", ">speedup"], rows)


def _short(name: str) -> str:
    return name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")


def _shown(microseconds: float) -> str:
    return f"{microseconds:,.0f}" if microseconds == int(microseconds) else f"{microseconds:,}"


_PLANTED = "diff.json"


def planted() -> str:
    """Returns which of the planted faults `opwire diff` found and named: one row per kind of fault."""
    found = stored(_PLANTED)["faults"]
    counts = ("planted", "found", "named")
    total = ["**all**", *(str(sum(row[each] for row in found)) for each in counts)]
    rows = [[row["fault"], *(str(row[each]) for each in counts)] for row in found]
    return table(["fault", ">planted", ">found", ">named"], [*rows, total])


def compared() -> str:
    """Returns the verdicts on ONNX Runtime as it is: one row per network."""
    titles = ("exact", "faithful", "explained", "reduced", "wrong")
    rows = [
        [row["network"], *(str(row["verdicts"].get(name) or "") for name in _COLUMNS), f"{row['times_both']:.2f}"]
        for row in stored(_PLANTED)["networks"]
    ]
    return table(["network", *(f">{title}" for title in titles), ">time"], rows)


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
