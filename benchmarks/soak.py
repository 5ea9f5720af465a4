"""Soaks a server in faults, crowds it or attacks it, and reports whether it keeps its promises.

python benchmarks/soak.py faults --seconds 60 --workers 2
python benchmarks/soak.py crowd
python benchmarks/soak.py attack --workers 2

``faults``: verified calls with retries, while other clients misbehave and workers are killed; no call is lost.

``crowd``: closed loops from wrk and from threads of one client, then open loops at half and at twice the capacity. No
call of a closed loop fails, and 64 connections get at least 0.9 of the throughput of 4 (0.8 for threads of one client).
At half the capacity nothing is refused. At twice the capacity, goodput is at least 0.9 of the capacity, accepted
requests wait no longer than 1.2 times the server's maximum wait, and the rest get 429 with ``Retry-After``; memory
stays within 1.1 times the budget.

``attack``: harmful client behavior, one kind after another, beside a normal client that never waits longer than a
second and gets only correct answers. Memory stays within 1.2 times the budget, no answer has a 5xx status other than
503 and 504, each request of an attack is answered within its own bound, the log stays short, and afterwards the server
is as it was before. ``--only giants,lookalikes`` selects attacks; ``--seed`` sets the random seed.

``--quick`` gives a first answer in little time. Requires ``pip install ".[service]"``, Linux, and for ``crowd`` wrk (in
Debian and Ubuntu: ``apt install wrk``; without it, use ``--by client``). The exit code is 1 if a promise is broken.
"""

import sys
from pathlib import Path

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # the parent folder, which holds the package `benchmarks`

from benchmarks.soaking import attack, crowd, faults

app = typer.Typer(add_completion=False)
app.command("faults")(faults.main)
app.command("crowd")(crowd.main)
app.command("attack")(attack.main)

if __name__ == "__main__":
    app()
