"""The sides that can be compared: each gives the tensors of a model as a backend computed them."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from ..errors import OpwireError, ProblemCode, RequestError
from ..tensor import Array
from .subjects import Runner, Subject


class SideError(RequestError):
    """A side cannot be used, or failed."""

    def __init__(self, detail: str) -> None:
        super().__init__(ProblemCode.INVALID_REQUEST, detail)


class Side(ABC):
    """A backend, or what it wrote.

    Attributes:
        name: what to call it.
    """

    name: str

    @abstractmethod
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> AbstractContextManager[Tensors]:
        """Runs the model, if need be, and returns its tensors for as long as the context is open.

        Raises:
            SideError: it failed.
        """


class Tensors(ABC):
    """The tensors of a model as a side computed them."""

    @abstractmethod
    def get(self, name: str) -> Array | None:
        """Returns a tensor, or None if the side does not give it. The nodes of the model ask in their order."""

    def missing(self, name: str) -> str:
        """Returns why the side does not give a tensor."""
        return "the side does not give it"

    def names(self) -> list[str]:
        """Returns the names of the tensors that it has, as far as it knows them without the model."""
        return []


class Files(Tensors):
    """Tensors in a folder of ``.npy`` files or an ``.npz`` file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, str] = {}
        if path.is_dir():
            self._found = {_tensor_name(each): str(each) for each in sorted(path.glob("*.npy"))}
        self._archive = None if path.is_dir() else np.load(path, allow_pickle=False)

    def get(self, name: str) -> Array | None:
        if self._archive is not None:
            return self._archive[name] if name in self._archive.files else None
        file = self._found.get(name)
        return None if file is None else np.load(file, mmap_mode="r", allow_pickle=False)

    def names(self) -> list[str]:
        return list(self._found) if self._archive is None else list(self._archive.files)


def file_name(tensor: str) -> str:
    """Returns the name of the file that has a tensor; characters that file names lack are written as in URLs."""
    return f"{quote(tensor, ' #$&()+,;=@[]{}')}.npy"


def _tensor_name(file: Path) -> str:
    return unquote(file.name.removesuffix(".npy"))


class FilesSide(Side):
    """What a backend wrote before."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        try:
            yield Files(self._path)
        except (ValueError, EOFError) as error:
            raise SideError(f"{self._path} cannot be read: {error}") from None


class CommandSide(Side):
    """A program that reads inputs and writes tensors as ``.npy`` files."""

    def __init__(self, command: str, timeout: float = 600) -> None:
        self.name = command
        self._command = shlex.split(command)
        self._timeout = timeout

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        with tempfile.TemporaryDirectory(prefix="opwire-") as folder:
            given, written = Path(folder, "inputs"), Path(folder, "outputs")
            given.mkdir()
            written.mkdir()
            for name, array in inputs.items():
                np.save(given / file_name(name), array, allow_pickle=False)
            self._run([*self._command, str(given), str(written)])
            yield Files(written)

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired:
            raise SideError(f"{self.name} did not end within {self._timeout:.0f} s") from None
        except OSError as error:
            raise SideError(f"{self.name} cannot be run: {error.strerror}") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise SideError(f"{self.name} ended with status {done.returncode}: {' '.join(said)}")


class RunnerSide(Side):
    """A device of this machine or a server, which runs the nodes one after the other."""

    def __init__(self, name: str, runner: Runner) -> None:
        self.name = name
        self._runner = runner

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        yield _Chain(subject, inputs, self._runner)


class _Chain(Tensors):
    """Computes each node when its first output is asked for, and drops tensors that no later node reads."""

    def __init__(self, subject: Subject, inputs: Mapping[str, Array], runner: Runner) -> None:
        self._subject = subject
        self._runner = runner
        self._nodes = list(subject.nodes)
        self._next = 0
        self._known: dict[str, Array] = dict(inputs)
        self._last = dict.fromkeys(inputs, -1)
        self._last |= {name: i for i, node in enumerate(self._nodes) for name in (*node.inputs, *node.outputs)}
        self._failed: dict[str, str] = {}

    def get(self, name: str) -> Array | None:
        while name not in self._known and name not in self._failed and self._next < len(self._nodes):
            self._step()
        return self._known.get(name)

    def missing(self, name: str) -> str:
        return self._failed.get(name) or super().missing(name)

    def _step(self) -> None:
        node = self._nodes[self._next]
        try:
            self._known |= self._subject.run(node, self._known, self._runner)
        except (OpwireError, KeyError) as error:
            self._failed |= dict.fromkeys(node.outputs, str(error))
        self._next += 1
        kept = {*self._subject.outputs, *self._nodes[self._next - 1].inputs}
        self._known = {
            name: array
            for name, array in self._known.items()
            if name in kept or self._last.get(name, 0) >= self._next - 1
        }


class ArraysSide(Side):
    """Tensors in memory."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.name = "arrays"
        self._arrays = arrays

    @contextmanager
    def tensors(self, subject: Subject, inputs: Mapping[str, Array]) -> Generator[Tensors]:
        yield _Given(self._arrays)


class _Given(Tensors):
    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays

    def get(self, name: str) -> Array | None:
        given = self._arrays.get(name)
        return None if given is None else np.asarray(given)

    def names(self) -> list[str]:
        return [str(name) for name in self._arrays]
