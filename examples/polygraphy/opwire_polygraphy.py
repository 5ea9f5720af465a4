"""The exact results of opwire as a backend of Polygraphy: ``polygraphy run model.onnx --opwire --onnxrt``."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from polygraphy import util
from polygraphy.backend.base import BaseRunner
from polygraphy.backend.onnx.util import get_input_metadata
from polygraphy.tools.args import OnnxLoadArgs
from polygraphy.tools.args.base import BaseRunnerArgs
from polygraphy.tools.script import make_invocable

import opwire
from opwire.onnx import Model, load


class OpwireRunner(BaseRunner):  # type: ignore[misc]  # Polygraphy has no types
    """Runs an ONNX model exactly.

    Args:
        model: the model, or what returns it.
        name: the name of the runner.
    """

    def __init__(self, model: Any, name: str | None = None) -> None:
        super().__init__(name=name, prefix="opwire-runner")
        self._given = model
        self._loaded: dict[tuple[object, ...], Model] = {}

    def activate_impl(self) -> None:
        self.model, _ = util.invoke_if_callable(self._given)
        self.client = opwire.local()

    def get_input_metadata_impl(self) -> Any:
        return get_input_metadata(self.model.graph)

    def infer_impl(self, feed_dict: Mapping[str, Any]) -> OrderedDict[str, np.ndarray[Any, Any]]:
        feeds = {name: np.asarray(util.array.to_numpy(each)) for name, each in feed_dict.items()}
        began = time.perf_counter()
        sizes = tuple(sorted((name, each.shape) for name, each in feeds.items()))
        if sizes not in self._loaded:
            self._loaded[sizes] = load(self.model, like=feeds)
        outputs = self._loaded[sizes].run(feeds, runner=self.client)
        self.inference_time = time.perf_counter() - began
        return OrderedDict(outputs)

    def deactivate_impl(self) -> None:
        self.client.close()
        self._loaded.clear()
        del self.model, self.client


class OpwireRunnerArgs(BaseRunnerArgs):  # type: ignore[misc]  # likewise
    """
    opwire Inference: running inference exactly.

    Depends on:

        - OnnxLoadArgs
    """  # Polygraphy takes the title of the group from this text

    def get_name_opt_impl(self) -> tuple[str, str]:
        return "opwire", "opwire"

    def add_to_script_impl(self, script: Any) -> None:
        script.add_import(imports=["OpwireRunner"], frm="opwire_polygraphy")
        model = self.arg_groups[OnnxLoadArgs].add_to_script(script)
        script.add_runner(make_invocable("OpwireRunner", model))


def argument_groups() -> list[BaseRunnerArgs]:
    """Returns what Polygraphy adds to the options of ``polygraphy run``."""
    return [OpwireRunnerArgs()]
