"""Compiles sources for GPUs that keep to floats with the host's C++ compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import opwire_service.kernels.cuda
from opwire.tensor import Array
from opwire_service.kernels.cuda.formula_source import FormulaSource
from opwire_service.kernels.cuda.job import TYPES
from opwire_service.kernels.formulas.formula import PlanFormula

COMPILER = shutil.which("g++")

_OPTIONS = ("-std=c++20", "-O1", "-mfma", "-mf16c", "-ffp-contract=off", "-shared", "-fPIC", "-w")

_HEADER, _KERNELS = Path(__file__).with_name("on_host.h"), Path(opwire_service.kernels.cuda.__file__).parent

_CALLS = """
extern "C" void NAME(long count, PARAMETERS, OUTPUT *to, unsigned char *settled, float *high, float *low) {
    for (long i = 0; i < count; ++i) {
        settled[i] = quick_NAME(ELEMENTS, to[i]);
        high[i] = rounded.hi, low[i] = rounded.lo;
    }
}
"""


def library(folder: Path, source: str, text: str, before: str = "") -> ctypes.CDLL:
    """Compiles a kernel source with more text after it.

    Args:
        folder: where the library is built.
        source: the name of the kernel source.
        text: calls of it, as C++.
        before: what it needs, as C++.
    """
    return compiled(folder, Path(source).name, before + kernel_text(source) + text)


def kernel_text(source: str) -> str:
    """Returns a kernel source."""
    return (_KERNELS / f"{source}.cu").read_text("utf-8")


def compiled(folder: Path, name: str, text: str) -> ctypes.CDLL:
    """Compiles C++ in which intrinsics of GPUs are those of the host."""
    assert COMPILER is not None
    (folder / f"{name}.cpp").write_text(_HEADER.read_text("utf-8") + text, "utf-8")
    target = folder / f"{name}.so"
    subprocess.run([COMPILER, *_OPTIONS, "-o", target, folder / f"{name}.cpp"], check=True)
    return ctypes.CDLL(str(target))


class Computed:
    """What a compiled function returns.

    Attributes:
        results: the rounded results.
        settled: where they are certain.
        high, low: the parts of the numbers that were rounded.
    """

    def __init__(self, count: int, formula: PlanFormula) -> None:
        self.results = np.empty(count, formula.output.dtype)
        self.settled = np.empty(count, bool)
        self.high, self.low = np.empty((2, count), np.float32)


class OnHost:
    """Compiled functions.

    Args:
        folder: where the library is built.
        formulas: the formulas, by identifier.
    """

    def __init__(self, folder: Path, formulas: Mapping[str, PlanFormula]) -> None:
        self._formulas = formulas
        text = "static Pair rounded;\n" + "".join(_functions(name, formula) for name, formula in formulas.items())
        self._library = library(folder, "pairs", text, kernel_text("floats"))

    def run(self, name: str, *elements: Array) -> Computed:
        """Evaluates a function on contiguous elements of its tensors, in the order of their names."""
        found = Computed(elements[0].size, self._formulas[name])
        arrays = *elements, found.results, found.settled, found.high, found.low
        addresses = [ctypes.c_void_p(each.ctypes.data) for each in arrays]
        self._library[name](ctypes.c_long(elements[0].size), *addresses)
        return found


def _functions(name: str, formula: PlanFormula) -> str:
    source = FormulaSource.of(formula, in_pairs=True)
    lines = source.in_floats()
    types = [TYPES[formula.inputs[each]] for each in source.names]
    words = {
        "NAME": name,
        "PARAMETERS": ", ".join(f"const {each} *from{i}" for i, each in enumerate(types)),
        "ELEMENTS": ", ".join(f"from{i}[i]" for i in range(len(types))),
        "OUTPUT": TYPES[formula.output],
    }
    calls = _CALLS
    for word, text in words.items():
        calls = calls.replace(word, text)
    lines[-1] = lines[-1].replace("narrowly(pair_of(", "narrowly(rounded = pair_of(")
    return source.function(f"quick_{name}", lines) + calls
