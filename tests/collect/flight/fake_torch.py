"""A process that behaves like torch's recorder from outside: makes a pipe, reads a byte, writes a dump.

Usage: fake_torch.py MODE DUMP SOURCE PIPE, with MODE one of answer, slow, halves, midway, never, stop-after.
It runs without torch and ends by itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

GIVE_UP = 30.0
"""Seconds after which it ends, whatever happens."""


def main() -> None:
    mode, dump, source, pipe = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    threading.Timer(GIVE_UP, lambda: os._exit(3)).start()
    content = source.read_bytes()
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        try:
            asked = os.read(reader, 1)
        except BlockingIOError:
            asked = b""
        if asked:
            answer(mode, dump, content)
        time.sleep(0.02)


def answer(mode: str, dump: Path, content: bytes) -> None:
    dump.with_name(dump.name + ".asked").touch()
    if mode == "never":
        return
    if mode == "die":
        os._exit(1)
    if mode == "slow":
        time.sleep(0.6)
    if mode == "midway":
        dump.write_bytes(content[: len(content) // 3])
        time.sleep(0.4)
    if mode in ("halves", "half"):
        with dump.open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            if mode == "half":
                return
            time.sleep(0.5)
            file.write(content[len(content) // 2 :])
        return
    dump.write_bytes(content)


if __name__ == "__main__":
    main()
