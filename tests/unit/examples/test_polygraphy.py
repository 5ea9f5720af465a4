"""The backend for Polygraphy, where Polygraphy is installed."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from tests.support.paths import EXAMPLES

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Polygraphy itself


@pytest.fixture
def plugin(monkeypatch):
    pytest.importorskip("polygraphy")
    monkeypatch.syspath_prepend(EXAMPLES / "polygraphy")
    yield EntryPoint("opwire", "opwire_polygraphy:argument_groups", "polygraphy.run.plugins")
    sys.modules.pop("opwire_polygraphy", None)


def test_polygraphy_finds_the_options(plugin):
    (group,) = plugin.load()()
    assert group.get_name_opt() == ("opwire", "opwire")


def test_a_model_runs_exactly(plugin):
    plugin.load()
    import onnx
    from opwire_polygraphy import OpwireRunner

    from opwire.onnx import load

    image = np.arange(192, dtype=np.float32).reshape(1, 3, 8, 8) / 192
    with OpwireRunner(onnx.load(EXAMPLES / "upscale.onnx")) as runner:
        assert list(runner.get_input_metadata()) == ["image"]
        (found,) = runner.infer({"image": image}).values()
    exact = load(EXAMPLES / "upscale.onnx", dimensions={"batch": 1}).run({"image": image})["upscaled"]
    assert np.array_equal(found, exact)
