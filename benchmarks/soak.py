"""Soaks a server in faults, crowds it, or attacks it, and says whether it keeps what it promises.

python benchmarks/soak.py faults --seconds 60 --workers 2
python benchmarks/soak.py crowd
python benchmarks/soak.py attack --workers 2

``faults``: verified calls with retries, among clients that misbehave and workers that are killed; none is lost.

``crowd``: closed loops by wrk and by threads of one client, then open loops at half and at twice the capacity. No call
of a closed loop fails, and 64 connections get at least 0.9 of the work done that 4 get (0.8 for threads of one client).
At half of the capacity nothing is refused. At twice, at least 0.9 of the capacity is answered, what is taken waits for
at most the server's longest wait and a fifth more, and the rest gets 429 with ``Retry-After``; memory stays within the
budget and a tenth more.

``attack``: what a client can do to harm, one kind after the other, beside a normal client that never waits for more
than a second and whose answers are all right. Memory stays within the budget and a fifth more, no answer is of status
5xx but 503 and 504, each request of an attack is answered within a bound of its own, the log stays short, and
afterwards the server is as it was. ``--only giants,lookalikes`` picks kinds; ``--seed`` decides what is drawn.

``--quick`` gives a first answer in little time. It needs ``pip install ".[service]"``, Linux, and for ``crowd`` wrk
(in Debian and Ubuntu: ``apt install wrk``; without it, ``--by client``). The exit code is 1 if a promise was broken.
"""

import sys
from pathlib import Path

import typer

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder above this one, in which `benchmarks` is a package

from benchmarks.soaking import attack, crowd, faults

app = typer.Typer(add_completion=False)
app.command("faults")(faults.main)
app.command("crowd")(crowd.main)
app.command("attack")(attack.main)

if __name__ == "__main__":
    app()
