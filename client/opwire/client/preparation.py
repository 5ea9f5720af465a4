"""Calls that are prepared one by one and made together."""

from __future__ import annotations

from dataclasses import replace

from ..wire import Call
from .methods import OperatorMethods
from .options import CallOptions, EffectiveOptions


class Preparation(OperatorMethods[Call, Call]):
    """The methods of a client, of which each returns its call in place of making it; for ``execute_many``."""

    def _run(self, call: Call, options: CallOptions) -> Call:
        for name in options.keys() & {"encoding", "max_retries"}:
            raise TypeError(f"calls that are made together have one {name}: give it to execute_many")
        given = EffectiveOptions(timeout=None).updated(options)
        return replace(call, options=given.members())

    _run_pooling = _run


prepare = Preparation()
