"""Every operator has a kernel of its own on each device, or stands here with the reason why not."""

import pytest

from opwire_service.kernels.cpu.families import PREPARE
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.executable import EXECUTABLE

_SEQUENTIAL = "each step waits for the one before, so a card gains nothing over the CPU"
_TRAINING = "gradients of training are rarely large; the CPU runs them"
_ATTENTION = "runs on the CPU, as several products that share their intermediates"

WITHOUT = {
    "cpu": {"ROI_ALIGN_GRAD": "its scatter has no compiled kernel yet; the reference runs it"},
    "cuda": {
        "RNN": _SEQUENTIAL,
        "LSTM": _SEQUENTIAL,
        "GRU": _SEQUENTIAL,
        "RANDOM_GENERATOR": "Philox on the CPU keeps up with the transfer of its bits",
        "ADAM_OPTIMIZER": _TRAINING,
        "LOCAL_RESPONSE_NORMALIZATION_GRAD": _TRAINING,
        "BATCH_NORMALIZATION_GRAD": _TRAINING,
        "BATCH_NORMALIZATION_TRAINING_GRAD": _TRAINING,
        "ROI_ALIGN_GRAD": _TRAINING,
        "MULTIHEAD_ATTENTION": _ATTENTION,
        "MULTIHEAD_ATTENTION1": _ATTENTION,
        "QUANTIZED_LINEAR_AVERAGE_POOLING": "its integer sums have no kernel on a card yet",
    },
}
"""The operators that another device runs, and why."""


@pytest.mark.parametrize(("device", "kernels"), [("cpu", PREPARE), ("cuda", JOBS)])
def test_every_operator_has_a_kernel_of_its_own(device, kernels):
    """Fails for a new operator whose kernel was forgotten: it would run on another device, or slowly, unnoticed."""
    assert {name for name in EXECUTABLE if name not in kernels} == WITHOUT[device].keys()
