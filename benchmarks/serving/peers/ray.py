"""Ray Serve with one replica behind its HAProxy, its fastest ingress."""

from __future__ import annotations

from ..contender import Contender, Form, script
from .bodies import read_raw, write_raw

CONTENDER = Contender(
    name="ray",
    title="Ray Serve",
    package="ray",
    requirements=("ray[serve,haproxy]>=2.55", "numpy"),
    command=script("ray_server.py"),
    environment={
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    },
    forms=(Form(name="raw bytes", encoding="binary", request=lambda case: write_raw(case, "/"), answer=read_raw),),
    settings="1 replica, HAProxy, RAY_SERVE_THROUGHPUT_OPTIMIZED, no access log",
)
