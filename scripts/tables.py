"""Generates the tables of the documentation that derive from code: operators, settings, limits, errors and routes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_type_hints

from opwire.errors import PROBLEMS
from opwire.level import FeatureLevel
from opwire.listing import FAMILIES
from opwire.operator import Code
from opwire.operators import OPERATORS
from opwire.schema import CATALOG
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.executable import EXECUTABLE
from opwire_service.process.application import create_app
from opwire_service.settings import Limits, Option, Settings

from .markdown import table
from .operator_pages import matrix, title

_METHODS = ("get", "post", "put", "delete")


def counts() -> str:
    """Returns how many operator types are known, checked and executable."""
    known, declared, executable = len(CATALOG), len(OPERATORS), len(EXECUTABLE)
    if known == declared == executable:
        return f"opwire validates and runs all {known} operator types of DirectML."
    return f"DirectML has {known} operator types; opwire validates {declared} and runs {executable} of them."


def level_matrix() -> str:
    """Returns the feature levels that introduce each executable operator or extend its support."""
    return matrix(EXECUTABLE)


def families() -> str:
    """Returns the operator families, with links to their pages."""
    rows = []
    for family in FAMILIES:
        kinds = [kind for kind in CATALOG.values() if kind.family == family]
        names = ", ".join(f"**{kind.name}**" if kind.name in EXECUTABLE else kind.name for kind in kinds)
        checked = sum(kind.name in OPERATORS for kind in kinds)
        rows.append([f"[{title(family)}](operators/{family}.md)", names, f"{checked} of {len(kinds)}"])
    return table(["family", "operator types", "checked"], rows)


def known_operators() -> str:
    """Returns all operator types by the feature level that introduced them, executable ones in bold."""
    brought: dict[FeatureLevel, list[str]] = {}
    for kind in CATALOG.values():
        brought.setdefault(kind.introduced, []).append(f"**{kind.name}**" if kind.name in EXECUTABLE else kind.name)
    return "\n\n".join(f"**{level.short}** ({len(names)}): {', '.join(names)}" for level, names in brought.items())


def cuda_operators() -> str:
    """Returns which operator types the CUDA device lacks."""
    lacking = [name for name in CATALOG if name not in JOBS]
    count = len(CATALOG) - len(lacking)
    return f"The `cuda` device runs {count} of the {len(CATALOG)} operator types: all but {', '.join(lacking)}."


def settings() -> str:
    """Returns the options of ``opwire serve``, except the limits."""
    return table(["option and variable", "default", "description"], _options(Settings))


def limits() -> str:
    """Returns the limits of a server, which are also options."""
    return table(["option and variable", ">default", "description"], _options(Limits))


def _options(kind: type[Settings | Limits]) -> Iterator[list[str]]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        for option in get_args(hints[each.name]):
            if isinstance(option, Option):
                flag = option.flag or f"--{each.name.replace('_', '-')}"
                first = flag.partition("/")[0]
                variable = "OPWIRE_" + first.removeprefix("--").replace("-", "_").upper()
                shown = flag.replace("/", "`, `")
                yield [f"`{shown}`<br>`{variable}`", _default(each), option.help]


def _default(each: Field[Any]) -> str:
    if each.default is MISSING:
        return "machine-dependent"
    match each.default:
        case None | "" | ():
            return "none"
        case bool():
            return "yes" if each.default else "no"
        case int() if each.name.endswith("bytes") and each.default % 2**20 == 0:
            return f"{each.default // 2**20:,} MiB"
        case int() if each.default > 2**16 and each.default.bit_count() == 1:
            return f"2^{each.default.bit_length() - 1}"
        case tuple():
            return f"`{' '.join(each.default)}`"
        case _:
            return f"`{each.default}`"


def problems() -> str:
    """Returns the problem codes, with their status and exception in the Python client."""
    rows = ([row.status, f"`{code}`", row.title, f"`{row.exception.__name__}`"] for code, row in PROBLEMS.items())
    return table([">status", "code", "title", "Python exception"], sorted(rows, key=lambda row: str(row[0])))


def violation_codes() -> str:
    """Returns the violation codes."""
    return ", ".join(f"`{code.value}`" for code in Code)


def routes() -> str:
    """Returns the native routes and their summaries."""
    paths: Mapping[str, Mapping[str, Any]] = create_app(Settings()).framework.openapi()["paths"]
    rows = [
        [f"`{method.upper()} {path}`", _first_sentence(operation)]
        for path, operations in paths.items()
        for method, operation in operations.items()
        if method in _METHODS and not path.startswith("/v2")
    ]
    return table(["route", "description"], rows)


def _first_sentence(operation: Mapping[str, Any]) -> str:
    text: str = operation.get("description") or operation["summary"]
    return text.replace("``", "`").split("\n\n")[0].replace("\n", " ").partition(". ")[0].removesuffix(".")


REGIONS: dict[str, Callable[[], str]] = {
    "counts": counts,
    "level-matrix": level_matrix,
    "families": families,
    "known-operators": known_operators,
    "cuda-operators": cuda_operators,
    "settings": settings,
    "limits": limits,
    "problems": problems,
    "violation-codes": violation_codes,
    "routes": routes,
}
"""Generators of page regions, by name."""
