"""One rank of the built-in benchmark, from its orders to its last word.

It says where it stands before each thing that may never end, so that whoever kills it can name who did not come.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import MutableMapping, Sequence
from typing import Any

from rankmuster.bench.builtin import lazy, logs
from rankmuster.bench.builtin.control import Control, Place, file_store, place_of, tcp_store
from rankmuster.bench.builtin.environment import safeguards
from rankmuster.bench.builtin.frames import Speaker
from rankmuster.bench.builtin.measure import Measurer, Planned, Taken, plan
from rankmuster.bench.builtin.orders import Backend, Orders, parse

LATE = 4
"""Exit status of a rank that ended itself: its time was over, or its parent gone."""

FAILED = 1

MOST_ITERATIONS = 1_000  # per cell in a message; their mean and spread are over all


def main(arguments: Sequence[str] | None = None) -> None:
    """Never returns: threads of torch and NCCL must not hold up a process that has said everything."""
    orders = parse(sys.argv[1:] if arguments is None else arguments)
    _end_after(orders.seconds)
    if orders.tied:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    place = _place(orders, os.environ)
    if orders.environment is not None:
        _only(orders.environment)
    speaker = Speaker(orders.results, place.rank)
    own = None if orders.logs else tempfile.mkdtemp(prefix="rankmuster-bench-")
    folder = orders.logs or own or ""
    logs.ask(os.environ, folder, choices=orders.choices)  # type: ignore[arg-type]  # it is a mapping of texts
    status = FAILED
    try:
        _work(orders, place, speaker, folder)
        status = 0
    except BaseException as error:
        speaker.say("failed", error=f"{type(error).__name__}: {error}"[:2000], at=_where(error))
        traceback.print_exc()
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)
        sys.stderr.flush()
        os._exit(status)


def _only(asked: tuple[tuple[str, str], ...]) -> None:
    """What the node or its launcher happens to set would be measured otherwise, and not stand in the result."""
    kept = safeguards(os.environ)
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        del os.environ[name]
    os.environ.update(kept)
    os.environ.update(asked)


def _place(orders: Orders, environment: MutableMapping[str, str]) -> Place:
    if orders.rank is not None and orders.ranks is not None:
        return Place(orders.rank, orders.ranks, orders.rank, "local")
    return place_of(environment)


def _work(orders: Orders, place: Place, speaker: Speaker, folder: str) -> None:
    speaker.say(
        "started",
        host=os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
        pid=os.getpid(),
        ranks=place.ranks,
        launcher=place.launcher,
        python=platform.python_version(),
        time=round(time.time(), 3),
    )
    torch = lazy.torch()

    speaker.say("torch", version=torch.__version__)
    speaker.say("at", cell=-1, doing="finding the other ranks")
    seconds = orders.seconds
    if orders.store:
        store = file_store(orders.store, place.ranks, seconds)
    else:
        store = tcp_store(os.environ, place.rank, seconds)
    control = Control(lazy.dist().PrefixStore("rankmuster", store), place.rank, place.ranks)
    if orders.backend is not Backend.GLOO and not torch.cuda.is_available():
        # Never gloo instead: a node whose GPUs are out of reach would pass with figures of its CPU.
        raise RuntimeError(f"torch {torch.__version__} sees no GPU here (built for CUDA {torch.version.cuda})")
    from rankmuster.bench.builtin.setup import set_up  # after torch's import, which may take a minute

    ready = set_up(orders.backend, control, place, store, speaker, seconds)
    with ready.context:
        cells, left_out = plan(orders.profile, ready.group, ready.graphs)
        if place.rank == 0:
            called = [_name(orders, cell) for cell in cells]
            speaker.say("plan", cells=called, left_out=left_out + ready.notes)

        def progress(cell: int, doing: str) -> None:
            speaker.say("at", cell=cell, doing=doing)

        measurer = Measurer(orders.profile, ready.group, ready.timer, progress)
        if orders.choices:
            measurer.touch(cells)
        else:
            if ready.probe is not None:
                speaker.say("at", cell=-1, doing="the GPU's own work")
                speaker.say("probe", **ready.probe())
            for cell, taken in measurer.all(cells):
                _tell(orders, cell, control.gather(_plain(taken)), speaker)
    speaker.say("at", cell=len(cells), doing="the end")
    control.agree(True)  # nobody leaves while another may still need its connections
    control.gather(True)  # and rank 0, which serves the store, leaves last
    speaker.say("log", lines=logs.telling(folder, os.getpid()))
    speaker.say("done")


def _plain(taken: Taken) -> dict[str, Any]:
    each = [round(value, 3) for value in taken.iterations_us[:MOST_ITERATIONS]]
    return {"loop": round(taken.loop_us, 4), "each": each, "wrong": taken.wrong}


def _tell(orders: Orders, cell: Planned, gathered: list[Any], speaker: Speaker) -> None:
    """Rank 0 tells what all saw: the loop's mean over ranks, as nccl-tests' default; each iteration's slowest rank."""
    if not gathered:
        return
    step = orders.profile.steps[cell.step]
    each = [rank["each"] for rank in gathered]
    speaker.say(
        "row",
        operation=step.operation.value,
        size=cell.size,
        moved=cell.layout.size_bytes,
        dtype=step.dtype,
        in_place=cell.in_place,
        graph=cell.graph,
        time_us=round(sum(rank["loop"] for rank in gathered) / len(gathered), 4),
        wrong=sum(rank["wrong"] for rank in gathered),
        iterations_us=[max(values) for values in zip(*each, strict=True)],
        ranks_us=[round(sum(values) / len(values), 3) for values in each],
    )


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _end_after(seconds: float) -> None:
    def end() -> None:
        time.sleep(seconds)
        os._exit(LATE)

    threading.Thread(target=end, daemon=True).start()


def _end_with_parent() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os._exit(LATE)


def _name(orders: Orders, cell: Planned) -> str:
    step = orders.profile.steps[cell.step]
    how = (", in place" if cell.in_place else "") + (", CUDA graph" if cell.graph else "")
    return f"{step.operation.value} of {cell.size} bytes ({step.dtype}{how})"
