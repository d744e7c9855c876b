"""One rank of a small gloo job whose recorder is dumped while it runs or hangs; started by test_gloo_dumps.py.

Usage: gloo_worker.py RANK WORLD FOLDER SCENARIO, with SCENARIO one of healthy, stop, skip.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

ROUNDS = 12
SETTLE = 2.5
"""Seconds from the first fault to the dump: more than a tail is old."""

GIVE_UP = 40.0
"""Seconds after which a rank ends by itself, whatever happens."""


def main() -> None:
    rank, world, folder, scenario = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    threading.Thread(target=_end_late, daemon=True).start()
    store = dist.FileStore(str(folder / "store"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=30))
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    own = pairs[rank // 2]
    ready = threading.Event()
    dumper = threading.Thread(target=_dump, args=(rank, world, folder, scenario, ready), daemon=True)
    dumper.start()
    for number in range(ROUNDS):
        if number == ROUNDS - 2:
            ready.set()
            if scenario == "stop" and rank == 2:
                dumper.join()
                os._exit(0)
        if not (scenario == "skip" and rank == 2 and number == ROUNDS - 2):
            dist.all_reduce(torch.ones(16))
        dist.all_reduce(torch.ones(4), group=own)
    while scenario == "healthy":
        dist.all_reduce(torch.ones(16))
        time.sleep(0.01)
    dumper.join()
    os._exit(0)


def _end_late() -> None:
    time.sleep(GIVE_UP)
    os._exit(3)


def _dump(rank: int, world: int, folder: Path, scenario: str, ready: threading.Event) -> None:
    """Writes both forms of the dump and when it was taken; the rank ends once all others have theirs."""
    ready.wait()
    time.sleep(SETTLE if scenario != "healthy" else 0.5)
    c10d = torch._C._distributed_c10d
    looked = time.time()
    pickled = c10d._dump_fr_trace(True, True, False)
    text = c10d._dump_fr_trace_json(True, False)
    (folder / "pickle" / "flight" / f"fr_trace_rank_{rank}").write_bytes(pickled)
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "json" / "flight" / f"fr_trace_rank_{rank}.json").write_bytes(data)
    (folder / f"look_{rank}.json").write_text(json.dumps(looked))
    deadline = time.time() + 20
    while len(list(folder.glob("look_*.json"))) < world and time.time() < deadline:
        time.sleep(0.02)
    os._exit(0)


if __name__ == "__main__":
    main()
