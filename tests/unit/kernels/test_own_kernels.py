"""Every operator has a kernel of its own on each device, or stands in ``WITHOUT`` with the reason why not."""

import pytest

from opwire_service.kernels.cpu.families import PREPARE
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.executable import EXECUTABLE

_SEQUENTIAL = "each step waits for the one before; the CPU runs it"
_TRAINING = "a step of training; the CPU runs it"
_ATTENTION = "several products that share their intermediates; the CPU runs them"

WITHOUT = {
    "cpu": {"ROI_ALIGN_GRAD": "its scatter has no compiled kernel; the reference runs it"},
    "cuda": {
        "RNN": _SEQUENTIAL,
        "LSTM": _SEQUENTIAL,
        "GRU": _SEQUENTIAL,
        "RANDOM_GENERATOR": "its bits depend on no input; the CPU runs it",
        "ADAM_OPTIMIZER": _TRAINING,
        "LOCAL_RESPONSE_NORMALIZATION_GRAD": _TRAINING,
        "BATCH_NORMALIZATION_GRAD": _TRAINING,
        "BATCH_NORMALIZATION_TRAINING_GRAD": _TRAINING,
        "ROI_ALIGN_GRAD": _TRAINING,
        "MULTIHEAD_ATTENTION": _ATTENTION,
        "MULTIHEAD_ATTENTION1": _ATTENTION,
        "QUANTIZED_LINEAR_AVERAGE_POOLING": "its integer sums have no kernel on a card; the CPU runs it",
    },
}
"""The operators that another device runs, and why."""


PLACES = {"cpu": "PREPARE of its family in kernels/cpu", "cuda": "JOBS of its family in kernels/cuda"}


@pytest.mark.parametrize(("device", "kernels"), [("cpu", PREPARE), ("cuda", JOBS)])
def test_every_operator_has_a_kernel_of_its_own(device, kernels):
    """Fails for a new operator whose kernel was forgotten: it would run on another device, or slowly, unnoticed."""
    lacking = set(EXECUTABLE) - set(kernels)
    forgotten = lacking - WITHOUT[device].keys()
    assert not forgotten, f"add {sorted(forgotten)} to {PLACES[device]}, or to WITHOUT with the reason"
    assert lacking == WITHOUT[device].keys()
