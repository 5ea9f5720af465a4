"""The servers, in table order; one module describes each."""

from __future__ import annotations

from ..contender import Contender
from . import bentoml, fastapi, floor, kserve, litserve, mlserver, opwire, ray, triton

CONTENDERS: dict[str, Contender] = {
    module.CONTENDER.name: module.CONTENDER
    for module in (floor, opwire, fastapi, mlserver, kserve, ray, bentoml, litserve, triton)
}
