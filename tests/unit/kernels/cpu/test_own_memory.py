"""Memory that kernels allocate for themselves lives as long as they use it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from opwire_service.kernels import cpu

ROOT = Path(cpu.__file__).parent


def owners() -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """Yields the functions that take the address of a local array: location, function, and the array's name."""
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        for function in ast.walk(ast.parse(text)) if "address_of" in text else ():
            if isinstance(function, ast.FunctionDef):
                for name in sorted(addressed(function) & set(made(function))):
                    yield f"{path.relative_to(ROOT)}:{function.name}", function, name


def addressed(function: ast.FunctionDef) -> set[str]:
    """Returns the names whose addresses a function takes."""
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)]
    taken = [each.args[0] for each in calls if ast.unparse(each.func) == "address_of"]
    return {each.id for each in taken if isinstance(each, ast.Name)}


def made(function: ast.FunctionDef) -> Iterator[str]:
    """Yields the names of the arrays that a function allocates."""
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and ast.unparse(each.value).startswith("np.empty("):
            yield from (target.id for target in each.targets if isinstance(target, ast.Name))


def test_addressed_arrays_are_named_on_the_last_line() -> None:
    """Numba frees an array after the last line that names it, even if its address is still used."""
    found = list(owners())
    assert len(found) > 10
    early = [
        place for place, function, name in found if not ast.unparse(function.body[-1]).startswith(f"{name}[0] = 0")
    ]
    assert early == []
