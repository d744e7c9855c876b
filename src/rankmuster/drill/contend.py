"""Foreign work beside the ranks: `python -m rankmuster.drill.contend --parent PID [--gpu N]`, until a signal.

Without a GPU it keeps a processor busy; with one it multiplies matrices on that GPU, as a neighbour's job does.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from typing import Any

from rankmuster.drill.tether import die_with

PROGRAM = (sys.executable, "-u", "-m", "rankmuster.drill.contend")
SIDE = 4096
"""Rows and columns of the matrices: a product takes a GPU some milliseconds."""
AT_ONCE = 8
"""Products that are queued at a time, so that the host waits and does not fill the queue."""
MOST_SECONDS = 900.0
"""After which it ends itself, whatever happens around it."""


def main(arguments: list[str]) -> None:
    """Works until its time is over, which is usually a signal."""
    parser = argparse.ArgumentParser(prog="python -m rankmuster.drill.contend", description=__doc__)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--gpu", type=int)
    options = parser.parse_args(arguments)
    die_with(options.parent)
    end = time.monotonic() + MOST_SECONDS
    if options.gpu is None:
        while time.monotonic() < end:
            sum(range(10_000))
        return
    torch: Any = importlib.import_module("torch")
    torch.cuda.set_device(options.gpu)
    first = torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device="cuda")
    other = torch.empty_like(first)
    while time.monotonic() < end:
        for _ in range(AT_ONCE):
            torch.mm(first, first, out=other)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
