"""One rank of a gloo job with torch's debug server, whose rank 2 skips a collective; started by test_real_debug_server.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment, as torchrun gives them. Writes `ready` once
everything is about to hang, and ends by itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.debug import start_debug_server

ROUNDS = 6
GIVE_UP = 90.0
"""Seconds after which a rank ends by itself, whatever happens."""


def main() -> None:
    threading.Thread(target=_end_late, daemon=True).start()
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", timeout=timedelta(seconds=80))
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    start_debug_server(port=0)
    for number in range(ROUNDS):
        if number == ROUNDS - 1:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
        if not (rank == 2 and number == ROUNDS - 1):
            dist.all_reduce(torch.ones(16))
        dist.all_reduce(torch.ones(4), group=pairs[rank // 2])


def _end_late() -> None:
    time.sleep(GIVE_UP)
    os._exit(3)


if __name__ == "__main__":
    main()
