"""Soaks a server in faults, or floods it, and says whether it kept what it promises.

python benchmarks/soak.py faults --seconds 60 --workers 2
python benchmarks/soak.py overload --seconds 60

It needs ``pip install ".[service]"`` and Linux. The exit code is 1 if a promise was broken.
"""

import typer
from soaking import faults, overload  # the folder of that name beside this file

app = typer.Typer(add_completion=False)
app.command("faults")(faults.main)
app.command("overload")(overload.main)

if __name__ == "__main__":
    app()
