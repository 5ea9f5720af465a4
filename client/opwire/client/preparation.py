"""Calls prepared one by one, to be sent as a batch."""

from __future__ import annotations

from dataclasses import replace

from ..wire import Call
from .methods import OperatorMethods
from .options import CallOptions, EffectiveOptions


class Preparation(OperatorMethods[Call, Call]):
    """The methods of a client, except that each returns its call, for ``execute_many``, instead of sending it."""

    def _run(self, call: Call, options: CallOptions) -> Call:
        for name in options.keys() & {"encoding", "max_retries"}:
            raise TypeError(f"{name} cannot differ between the calls of a batch; pass it to execute_many")
        given = EffectiveOptions(timeout=None).updated(options)
        return replace(call, options=given.members())

    _run_pooling = _run


prepare = Preparation()
