"""Measures opwire and other tensor servers under the same load, each relative to a bare ASGI floor.

python benchmarks/serving.py --help

Requires ``pip install ".[bench]"`` and Linux. It prefers wrk (the Debian and Ubuntu package ``wrk``) and falls back to
its own, slower load generator. Each server is installed into its own environment in a cache folder outside the
repository.
"""

import typer
from serving.command import main  # the folder of that name beside this file

if __name__ == "__main__":
    typer.run(main)
