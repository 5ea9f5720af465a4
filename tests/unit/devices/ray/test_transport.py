"""The transport between a server, its bridge and its nodes: plans, tensors, shared memory and messages."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwire.check import check
from opwire.graph import check_graph
from opwire.operators import OPERATORS
from opwire_service.devices.ray.blocks import IDLE_BYTES, LEAST_BLOCK, SharedBlock, SharedBlocks, block_size, opened
from opwire_service.devices.ray.channel import Channel
from opwire_service.devices.ray.device import Carrier, RemoteCall, RemoteDevice
from opwire_service.devices.ray.messages import CallOutcome, Done, Run, Up
from opwire_service.devices.ray.packing import BlockLayout, allocate, dump_plan, load_plan, pack, unpack
from opwire_service.devices.reference import ReferenceDevice
from opwire_service.execution import Stopped
from tests.support.rows import for_each
from tests.unit.kernels.test_graph_runs import chain


def never() -> bool:
    return False


@for_each(OPERATORS)
def test_plans_of_all_examples_round_trip(name):
    operator = OPERATORS[name]
    for example in operator.examples:
        plan = check({"type": name, "desc": dict(example.desc)}, example.level)
        read = load_plan(dump_plan(plan))
        assert (read.operator, read.level) == (operator, example.level)
        assert (read.attributes, read.inputs, read.outputs, read.work) == (
            plan.attributes,
            plan.inputs,
            plan.outputs,
            plan.work,
        )


def test_tensors_round_trip_with_their_gaps():
    desc = {"DataType": "FLOAT32", "Sizes": [2, 3], "Strides": [5, 1]}
    plan = check({"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": desc, "OutputTensor": desc}})
    (given_desc,) = plan.inputs.values()
    numbers = np.arange(8, dtype="f4")
    memory = np.full(BlockLayout.of(plan.inputs).size, 0xFF, np.uint8)
    pack(plan.inputs, {"InputTensor": given_desc.view(numbers)}, memory, never)
    assert memory[:32].tobytes() == numbers.tobytes()  # up to the last element, gaps included

    made = allocate(plan.outputs.values(), BlockLayout.of(plan.outputs).size)
    views = BlockLayout.of(plan.outputs).views(plan.outputs, made)
    ReferenceDevice().run(plan, BlockLayout.of(plan.inputs).views(plan.inputs, memory), views, never)
    target = np.full(8, 9, "f4")
    unpack(plan.outputs, made, {"OutputTensor": given_desc.view(target)}, never)
    assert target.tolist() == [0, 1, 2, 9, 9, 5, 6, 7]


def test_copying_can_be_stopped():
    plan = check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": _tensor(4), "Axes": [0]}})
    array = np.zeros(4, "f4")
    with pytest.raises(Stopped):
        pack(plan.inputs, {"InputTensor": array}, np.empty(64, np.uint8), lambda: True)


def _tensor(count: int) -> dict[str, object]:
    return {"DataType": "FLOAT32", "Sizes": [count]}


@given(st.integers(0, 1 << 34))
def test_blocks_waste_at_most_a_quarter(size):
    found = block_size(size)
    assert size <= found <= max(LEAST_BLOCK, size * 1.25)
    assert block_size(found) == found


class RecordingBridge:
    """Records what a bridge would be told about blocks."""

    def __init__(self) -> None:
        self.opened: dict[int, Any] = {}
        self.dropped: list[int] = []

    def new(self, block: SharedBlock, descriptor: int) -> None:
        self.opened[block.number] = opened(os.dup(descriptor), block.size)

    def drop(self, block: SharedBlock) -> None:
        self.dropped.append(block.number)


def test_blocks_are_shared_and_reused():
    told = RecordingBridge()
    blocks = SharedBlocks(told.new, told.drop)
    first, second = blocks.take(100), blocks.take(LEAST_BLOCK)
    first.memory[:3] = [1, 2, 3]
    assert told.opened[first.number][:4].tolist() == [1, 2, 3, 0]
    told.opened[second.number][0] = 7
    assert second.memory[0] == 7
    blocks.give_back(first)
    assert blocks.take(5) is first
    large = [blocks.take(IDLE_BYTES // 2 + 1) for _ in range(2)]
    for block in large:
        blocks.give_back(block)
    assert told.dropped == [large[1].number]


def test_a_channel_carries_messages_and_descriptors_in_order():
    ours, theirs = (Channel[Any, Any](end) for end in socket.socketpair())
    read, write = os.pipe()
    ours.send("first")
    ours.send("with", write)
    ours.send("last")
    os.close(write)
    assert theirs.receive() == "first"
    assert theirs.receive() == "with"
    received = theirs.receive_descriptor()
    assert theirs.receive() == "last"
    os.write(received, b"here")
    assert os.read(read, 4) == b"here"
    for each in (received, read):
        os.close(each)
    ended = threading.Event()

    def listen() -> None:
        with pytest.raises(EOFError):
            theirs.receive()
        ended.set()

    listening = threading.Thread(target=listen)
    listening.start()
    ours.close()
    assert ended.wait(30)
    listening.join()
    theirs.close()


class Planted:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def test_only_messages_are_unpickled(tmp_path):
    ours, theirs = (Channel[Any, Any](end) for end in socket.socketpair())
    for message in (Planted(tmp_path / "trace"), Done(1, CallOutcome.FAILED, {"detail": Planted(tmp_path / "trace")})):
        ours.send(message)
        with pytest.raises(OSError, match="not a class of these messages"):
            theirs.receive()
    assert not (tmp_path / "trace").exists()
    sent = [
        Run(1, 2, b"plan", 3, 4),
        Done(1, CallOutcome.DONE),
        Up(0, "a", "b", True, None, {"kind": "cpu"}, ["SUM"], 0.5, 0),
    ]
    for each in sent:
        ours.send(each)
    assert [theirs.receive() for _ in sent] == sent
    for channel in (ours, theirs):
        channel.close()


def test_only_plans_are_unpickled(tmp_path):
    plan = check({"type": "REDUCE", "desc": {"Function": "SUM", "InputTensor": _tensor(4), "Axes": [0]}})
    for written in (
        pickle.dumps(Planted(tmp_path / "trace")),
        dump_plan(replace(plan, attributes=Planted(tmp_path / "trace"))),
        dump_plan(replace(plan, outputs={"OutputTensor": cast(Any, Planted(tmp_path / "trace"))})),
    ):
        with pytest.raises(pickle.UnpicklingError, match="not a class of these messages"):
            load_plan(written)
    assert not (tmp_path / "trace").exists()


class NullCarrier(Carrier):
    """A carrier that transports nothing."""

    def __init__(self) -> None:
        self.blocks = SharedBlocks(lambda block, number: None, lambda block: None)
        self.largest = 2**20

    def start(self, device: int, plan: bytes, block: SharedBlock, sent: int) -> RemoteCall:
        raise AssertionError(device)

    def stop(self, call: RemoteCall) -> None:
        raise AssertionError(call)


def test_a_remote_device_executes_graphs_of_its_operators():
    some = ["REDUCE", "ELEMENT_WISE_ADD"]
    device = RemoteDevice(Up(0, "a/cuda:0", "a", False, 4, {}, some, 0.0, 0.0), NullCarrier())
    assert device.executes("GRAPH")
    assert device.executes("REDUCE")
    assert not device.executes("ARGMAX")
    assert not device.executes("NO_SUCH_TYPE")
    device = RemoteDevice(Up(0, "a/cpu", "a", False, 4, {}, None, 0.0, 0.0), NullCarrier())
    assert device.executes("ARGMAX")
    assert not device.executes("NO_SUCH_TYPE")


def test_the_plan_of_a_graph_round_trips():
    plan = check_graph(chain(3, 100))
    read = load_plan(dump_plan(plan))
    assert (read.inputs, read.outputs, read.work) == (plan.inputs, plan.outputs, plan.work)
    assert [step.plan.operator for step in read.attributes.steps] == [
        step.plan.operator for step in plan.attributes.steps
    ]


OPERATORS_SAID = """
import sys
from opwire_service.devices.cpu import CpuDevice
from opwire_service.devices.ray.host import operators
device = CpuDevice(1)
before = set(sys.modules)
assert device.describe()["kind"] == "cpu" and operators(device) is None
print(sorted(name for name in set(sys.modules) - before if "reference" in name))
device.close()
"""


def test_a_node_describes_its_device_without_loading_all_kernels():
    pytest.importorskip("ray")
    done = subprocess.run([sys.executable, "-c", OPERATORS_SAID], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
