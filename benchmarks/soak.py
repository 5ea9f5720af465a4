"""Soaks a server in faults, crowds it, or attacks it, and says whether it keeps what it promises.

python benchmarks/soak.py faults --seconds 60 --workers 2
python benchmarks/soak.py crowd
python benchmarks/soak.py attack --workers 2

``--quick`` gives a first answer in little time. It needs ``pip install ".[service]"``, Linux, and for ``crowd`` wrk
(in Debian and Ubuntu: ``apt install wrk``). The exit code is 1 if a promise was broken.
"""

import sys
from pathlib import Path

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder above this one, in which `benchmarks` is a package

from benchmarks.soaking import attack, crowd, faults

app = typer.Typer(add_completion=False)
app.command("faults")(faults.main)
app.command("attack")(attack.main)
app.command("crowd")(crowd.main)

if __name__ == "__main__":
    app()
