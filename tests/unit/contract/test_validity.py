"""A desc is valid where DirectML accepts it: warnings, ``strict``, sources, and what opwire cannot compute."""

from __future__ import annotations

import pytest

from opwire.check import check, validate
from opwire.errors import ContractViolation
from opwire.operator import Code


def tensor(data_type: str, *sizes: int) -> dict[str, object]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def test_what_only_the_documentation_forbids_is_a_warning():
    desc = {"Axis": 0, "InputTensor": tensor("FLOAT32", 2), "OutputTensors": [tensor("FLOAT32", 2)]}
    given = {"type": "SPLIT", "desc": {**desc, "OutputTensors[0]": tensor("FLOAT32", 2)}}
    found = validate(given)
    (warning,) = found.warnings
    assert found.valid
    assert (warning.code, warning.pointer) == (Code.UNKNOWN_FIELD, "/desc/OutputTensors[0]")
    assert warning.documented
    assert warning.source is not None
    assert warning.source.startswith("https://")
    strict = validate(given, strict=True)
    assert strict.violations == (warning,)
    assert not strict.warnings
    assert strict.minimum_feature_level is None
    with pytest.raises(ContractViolation):
        check(given, strict=True)


def test_a_valid_desc_that_opwire_cannot_compute_says_why_and_does_not_run():
    # DirectML compares the strides, of which none is twice the same, and the number of elements with the extent.
    output = {**tensor("FLOAT32", 2, 2, 2), "Strides": [5, 4, 1]}
    given = {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": tensor("FLOAT32", 2, 2, 2), "OutputTensor": output}}
    found = validate(given)
    (warning,) = found.warnings
    assert found.valid
    assert (warning.code, warning.source) == (Code.NOT_COMPUTABLE, None)
    with pytest.raises(ContractViolation) as refused:
        check(given)
    assert refused.value.violations == (warning,)


def test_what_only_directml_refuses_names_it():
    aligned = {**tensor("FLOAT32", 2), "GuaranteedBaseOffsetAlignment": 8}
    (violation,) = validate({"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": aligned}}).violations
    assert (violation.code, violation.source, violation.documented) == (Code.ALIGNMENT_INVALID, "DirectML", False)


@pytest.mark.parametrize(("least", "given"), [(12, 13), (12, 12), (8, 9)])
def test_a_buffer_may_have_any_size_from_the_least(least, given):
    data_type = "FLOAT32" if least == 12 else "FLOAT16"
    larger = {**tensor(data_type, 3), "TotalTensorSizeInBytes": given}
    assert validate({"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": larger}}).valid
    (violation,) = validate(
        {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": {**larger, "TotalTensorSizeInBytes": least - 1}}}
    ).violations
    assert violation.code is Code.TOTAL_SIZE_INVALID


def test_a_derived_output_is_held_to_its_support_row():
    given = tensor("FLOAT32", 2)
    desc = {"InputTensor": given, "QuantizationTensors": [given, given], "QuantizationType": "SCALE_ZERO_POINT"}
    for written in (desc, {**desc, "OutputTensor": given}):
        codes = {found.code for found in validate({"type": "QUANTIZE", "desc": written}).violations}
        assert codes == {Code.DATA_TYPE_NOT_IN_LEVEL}
