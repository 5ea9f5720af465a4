"""Asks DirectML whether it accepts descs, each level in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from opwire.reading import read_desc
from opwire.schema import operator_document
from opwire.tensor import BufferTensorDesc
from tests.support.paths import ROOT

from .libraries import folder


@dataclass(frozen=True)
class Answer:
    """What ``IDMLDevice::CreateOperator`` did: it returned an HRESULT, or crashed or hung, which is None."""

    result: int | None

    @property
    def accepted(self) -> bool:
        return self.result == 0

    def __str__(self) -> str:
        if self.result is None:
            return "crashed"
        return "accepted" if self.accepted else f"refused {self.result:08x}"


class DirectML:
    """DirectML's library of a level, in a process of its own.

    Raises:
        Unavailable: it cannot be asked on this machine.
    """

    def __init__(self, level: str) -> None:
        self.level = level
        folder(level)  # so that the process does not fetch it
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.directml.answering", self.level]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)

    def ask(self, type_: str, desc: Mapping[str, Any]) -> Answer:
        """Returns DirectML's answer to a desc in which every output is written out.

        Raises:
            ValueError: the desc cannot be written as C structs.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps([type_, desc]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            _, error = process.communicate()
            self._process = self._start()
            raise ValueError(error.strip().splitlines()[-1])
        return Answer(None if line == "crashed\n" else int(line, 16))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def written_out(type_: str, desc: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a desc with the outputs that opwire derives if they are omitted."""
    read = read_desc({"type": type_, "desc": desc}, "")
    members = operator_document(type_)["members"]
    required = [member["name"] for member in members if member.get("role") == "output" and member["kind"] == "tensor"]
    missing = [name for name in required if desc.get(name) is None and name in read.outputs]
    return {**desc, **{name: _tensor(read.outputs[name]) for name in missing}}


def _tensor(desc: BufferTensorDesc) -> dict[str, Any]:
    """Returns a packed tensor as JSON, without the size of its buffer."""
    return {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}
