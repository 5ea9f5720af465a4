"""Models run without a server: results, the files they read and write, and refusals."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opwire import ContractViolation, FeatureLevel
from opwire.dxdispatch import parse_model, read_model
from opwire.files import read_npy
from opwire_service.devices.base import Device
from opwire_service.offline.run import Launch, Save, Show, execute, prepare
from opwire_service.offline.tensor_files import write_array
from tests.support.paths import MODELS


def shown_by(model: Any, device: Device, folder: Path = MODELS) -> dict[str, list[Any]]:
    """Returns what the print commands of a model show."""
    steps = prepare(model, FeatureLevel.V6_4, folder, folder)
    return {step.resource: step.values.tolist() for step, _ in execute(steps, device) if isinstance(step, Show)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduce_lists", {"sums": [10, 2147483640], "maxima": [2147483647, 1, 5]}),
        ("pooling_nested", {"pooled": [3.0, 3.5, 5.0, 5.5], "where": [10, 11, 14, 15]}),
        # 9 as FLOAT32 bits is 9 * 2**-149.
        ("argmax_inline", {"class": [2, 1], "scores": [9 * 2.0**-149] * 6}),
    ],
)
def test_a_model_prints_its_results(name, expected, device):
    assert shown_by(parse_model((MODELS / f"{name}.json").read_bytes()), device) == expected


def test_offsets_apply_and_files_are_written(device, tmp_path):
    model = parse_model((MODELS / "offsets.json").read_bytes())
    assert prepare(model, FeatureLevel.V6_4, MODELS, tmp_path / "new" / "folder")
    steps = [step for step, _ in execute(prepare(model, FeatureLevel.V6_4, MODELS, tmp_path / "new"), device)]
    assert [type(step) for step in steps] == [Launch, Show, Save, Save, Save]
    assert np.load(tmp_path / "new" / "results.npy").tolist() == [0, 0, 0, 0, 3]
    assert np.load(tmp_path / "new" / "matrix.npy").tolist() == [[0, 0], [0, 0]]
    packed = (tmp_path / "new" / "packed.bin").read_bytes()
    assert len(packed) == 256
    assert np.frombuffer(packed[32:48], "<f4").tolist() == [1.5, 2, 4, 0.25]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["matrix.npy", "packed.bin", "results.npy"]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("stored", ["<f4", ">f4"])
def test_files_are_relative_to_the_model(device, tmp_path, order, stored):
    np.save(tmp_path / "input.npy", np.array([[3, 4], [6, 8]], stored, order=order))
    np.array([5, -7, 2], "<i2").tofile(tmp_path / "input.dat")
    model = parse_model((MODELS / "files.json").read_bytes())
    assert shown_by(model, device, tmp_path) == {"norms": [5, 10], "least": [-7]}


def test_files_are_read_from_the_current_folder_if_not_beside_the_model(device, tmp_path):
    np.save(tmp_path / "input.npy", np.array([3, 4, 6, 8], np.float32))
    np.array([1, 2, 3], "<i2").tofile(tmp_path / "input.dat")
    model = parse_model((MODELS / "files.json").read_bytes())
    with chdir(tmp_path):
        assert shown_by(model, device, tmp_path / "elsewhere") == {"norms": [5, 10], "least": [1]}


def test_a_missing_file_is_named(tmp_path):
    model = parse_model((MODELS / "files.json").read_bytes())
    with pytest.raises(FileNotFoundError) as caught:
        prepare(model, FeatureLevel.V6_4, tmp_path, tmp_path)
    assert caught.value.filename == str(tmp_path / "input.npy")


@pytest.mark.parametrize(
    ("resource", "content", "code", "at"),
    [
        ({"sourcePath": "x.npy"}, b"not a numpy file", "wrong_type", "/initialValues/sourcePath"),
        ({"sourcePath": "x.npy"}, b"", "wrong_type", "/initialValues/sourcePath"),
        ({"sourcePath": "x.npy"}, np.zeros(3, np.complex64), "wrong_type", "/initialValues/sourcePath"),
        ({"sourcePath": "x.npy"}, np.array([None]), "wrong_type", "/initialValues/sourcePath"),
        ({"sourcePath": "x.npy"}, np.zeros(3, np.float64), "data_types_differ", "/initialValuesDataType"),
        ({"sourcePath": "x.npy"}, np.zeros(0, np.float32), "out_of_range", "/initialValues"),
        ({"sourcePath": "x.npy"}, np.zeros(9, np.float32), "total_size_invalid", "/sizeInBytes"),
        ({"sourcePath": "x.png"}, b"", "unknown_value", "/initialValues/sourcePath"),
        ({"sourcePath": "x\0y"}, b"", "wrong_type", "/initialValues/sourcePath"),
    ],
)
def test_invalid_files_are_refused(tmp_path, resource, content, code, at):
    if isinstance(content, np.ndarray):
        np.save(tmp_path / "x.npy", content, allow_pickle=True)
    else:
        (tmp_path / "x.npy").write_bytes(content)
    buffer = {"initialValuesDataType": "FLOAT32", "initialValues": resource, "sizeInBytes": 32}
    model = read_model({"resources": {"x": buffer}, "dispatchables": {}, "commands": []})
    with pytest.raises(ContractViolation) as caught:
        prepare(model, FeatureLevel.V6_4, tmp_path, tmp_path)
    assert [(found.code.value, found.pointer) for found in caught.value.violations] == [(code, "/resources/x" + at)]


def test_a_raw_file_needs_a_data_type(tmp_path):
    (tmp_path / "x.dat").write_bytes(b"1234")
    buffer = {"initialValues": {"sourcePath": "x.dat"}}
    model = read_model({"resources": {"x": buffer}, "dispatchables": {}, "commands": []})
    with pytest.raises(ContractViolation, match="initialValuesDataType is required"):
        prepare(model, FeatureLevel.V6_4, tmp_path, tmp_path)


def pooling(bound: object, *commands: object, **members: object) -> dict[str, Any]:
    """Returns a model that pools a buffer ``in`` of 24 FLOAT32, of which the tensor covers 16."""

    def floats(count: int) -> dict[str, Any]:
        return {"initialValuesDataType": "FLOAT32", "initialValues": {"value": 1, "valueCount": count}}

    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 4, 4], "GuaranteedBaseOffsetAlignment": 16},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]},
        "Strides": [2, 2],
        "WindowSize": [2, 2],
        "StartPadding": [0, 0],
        "EndPadding": [0, 0],
    }
    mixed = {"initialValues": [{"type": "FLOAT32", "value": 1}] * 4}
    return {
        "resources": {"in": floats(24), "out": floats(8), "mixed": mixed},
        "dispatchables": {"pool": {"type": "MAX_POOLING1", "desc": desc, **members}},
        "commands": [{"type": "dispatch", "dispatchable": "pool", "bindings": bound}, *commands],
    }


GOOD = {"InputTensor": "in", "OutputTensor": "out"}
AT = "/commands/0/bindings"


def moved(resource: str, offset: int, **members: object) -> dict[str, object]:
    return {"name": resource, "elementOffset": offset, **members}


@pytest.mark.parametrize(
    "bindings",
    [
        GOOD,
        {"InputTensor": moved("in", 4), "OutputTensor": moved("out", 4)},
        {"InputTensor": moved("in", 4, elementSizeInBytes=8), "OutputTensor": moved("out", 1, elementSizeInBytes=16)},
        {"InputTensor": moved("in", 8), "OutputTensor": moved("in", 0)},
        # Without a data type there is no element size: DxDispatch multiplies by 0.
        {"InputTensor": "in", "OutputTensor": moved("mixed", 3)},
    ],
)
def test_parts_of_buffers_can_be_bound(bindings, device):
    steps = prepare(read_model(pooling(bindings)), FeatureLevel.V6_4, MODELS, MODELS)
    (launched,) = [step for step, _ in execute(steps, device)]
    assert isinstance(launched, Launch)
    assert launched.outputs["OutputTensor"].tolist() == [[[[1, 1], [1, 1]]]]


@pytest.mark.parametrize(
    ("model", "code", "pointer"),
    [
        (pooling({"InputTensor": "in"}), "missing_tensor", AT),
        (pooling({**GOOD, "OutputIndicesTensor": "in"}), "unknown_tensor", f"{AT}/OutputIndicesTensor"),
        (pooling({**GOOD, "InputTensor": "out"}), "byte_count_mismatch", f"{AT}/InputTensor"),
        (pooling({**GOOD, "InputTensor": [moved("in", 12)]}), "byte_count_mismatch", f"{AT}/InputTensor/0"),
        (pooling({**GOOD, "InputTensor": moved("in", 1)}), "alignment_invalid", f"{AT}/InputTensor"),
        (pooling({**GOOD, "OutputTensor": moved("out", 2)}), "alignment_invalid", f"{AT}/OutputTensor"),
        (pooling({**GOOD, "OutputTensor": moved("in", 12)}), "overlap_conflict", f"{AT}/OutputTensor"),
        (
            pooling(GOOD, bindings={"OutputTensor": "out"}),
            "unknown_tensor",
            "/dispatchables/pool/bindings/OutputTensor",
        ),
        (pooling(GOOD, {"type": "print", "resource": "mixed"}), "missing_field", "/commands/1/resource"),
        (
            pooling(GOOD, {"type": "writeFile", "resource": "mixed", "targetPath": "x.npy"}),
            "missing_field",
            "/commands/1/resource",
        ),
        (
            pooling(GOOD, {"type": "writeFile", "resource": "out", "targetPath": "x.npy", "dimensions": [3, 3]}),
            "sizes_mismatch",
            "/commands/1/dimensions",
        ),
        (
            pooling(GOOD, {"type": "writeFile", "resource": "out", "targetPath": "x.PNG"}),
            "unknown_value",
            "/commands/1/targetPath",
        ),
    ],
)
def test_invalid_models_are_refused_before_anything_runs(model, code, pointer, tmp_path):
    with pytest.raises(ContractViolation) as caught:
        prepare(read_model(model), FeatureLevel.V6_4, tmp_path, tmp_path)
    assert [(found.code.value, found.pointer) for found in caught.value.violations] == [(code, pointer)]
    assert list(tmp_path.iterdir()) == []


def test_outputs_must_not_share_bytes():
    model = pooling({"InputTensor": "in", "OutputTensor": "out", "OutputIndicesTensor": "out"})
    model["dispatchables"]["pool"]["desc"]["OutputIndicesTensor"] = {"DataType": "UINT32", "Sizes": [1, 1, 2, 2]}
    with pytest.raises(ContractViolation) as caught:
        prepare(read_model(model), FeatureLevel.V6_4, MODELS, MODELS)
    assert len(caught.value.violations) == 1
    assert caught.value.violations[0].code.value == "overlap_conflict"


def test_level_and_foreign_dispatchables_are_checked_together():
    model = parse_model((MODELS / "foreign.json").read_bytes())
    with pytest.raises(ContractViolation) as caught:
        prepare(model, FeatureLevel.V1_0, MODELS, MODELS)
    assert {found.pointer for found in caught.value.violations} == {
        "/dispatchables/shader/type",
        "/dispatchables/network/type",
        "/dispatchables/sum/desc/InputTensor/Sizes",
    }


# --- files


def test_boolean_files_are_bytes(tmp_path):
    np.save(tmp_path / "x.npy", np.array([True, False]))
    found = read_npy(tmp_path / "x.npy")
    assert found.dtype == np.uint8
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (1, 2, 3)])
def test_written_arrays_can_be_read_again(tmp_path, shape):
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    write_array(tmp_path / "x.NPY", array)
    assert np.array_equal(np.load(tmp_path / "x.NPY"), array)
    assert read_npy(tmp_path / "x.NPY").shape == shape


def test_raw_files_contain_the_logical_bytes(tmp_path):
    write_array(tmp_path / "x.bin", np.array([[1, 2], [3, 4]], "<u2").T)
    assert (tmp_path / "x.bin").read_bytes() == b"\1\0\3\0\2\0\4\0"


def test_a_failed_write_keeps_the_old_file(tmp_path):
    target = tmp_path / "x.npy"
    target.write_bytes(b"before")
    with pytest.raises(ValueError, match="allow_pickle"):
        write_array(target, np.array([None]))
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_links_are_followed_when_writing(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.bin").write_bytes(b"before")
    (tmp_path / "link.bin").symlink_to(tmp_path / "folder" / "x.bin")
    write_array(tmp_path / "link.bin", np.array([65, 66], np.uint8))
    assert (tmp_path / "link.bin").is_symlink()
    assert (tmp_path / "folder" / "x.bin").read_bytes() == b"AB"


def test_device_files_are_not_replaced():
    write_array(Path(os.devnull), np.zeros(2, np.uint8))
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["folder", "file/x.bin", "x\0y", "x\ud800"], ids=ascii)
def test_an_unwritable_path_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r".") as caught:
        write_array(tmp_path / name, np.zeros(2, np.uint8))
    assert str(caught.value.filename).startswith(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
