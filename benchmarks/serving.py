"""Measures opwire beside other servers of tensors, all under the same load, each against a bare ASGI floor.

python benchmarks/serving.py --help

It needs ``pip install ".[bench]"`` and Linux; best with wrk (a package of that name in Debian and Ubuntu), else it
uses a slower load generator of its own. The servers are installed, each into an environment of its own, in a cache
folder outside the repository.
"""

import typer
from serving.command import main  # the folder of that name beside this file

if __name__ == "__main__":
    typer.run(main)
