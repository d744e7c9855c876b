"""`python -m kube_sim.serve --port N [--objects FILE]`: the simulated API server as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from kube_sim.fleet import fleet
from kube_sim.running import start, write_kubeconfig
from kube_sim.server import Server
from kube_sim.store import Store


def objects_of(path: Path) -> Iterable[dict[str, Any]]:
    """Of a file: YAML documents, a List, or JSON, one object a line (.jsonl), which is the one for a whole fleet."""
    if path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)
        return
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        if document:
            yield from document["items"] if str(document.get("kind", "")).endswith("List") else [document]


def load(store: Store, objects: Iterable[dict[str, Any]]) -> int:
    """As they are, UIDs and status and all, unchecked and uncopied. How many."""
    count = 0
    for one in objects:
        store.seed(one)
        count += 1
    return count


async def _serve(server: Server, port: int, kubeconfig: Path | None) -> None:
    runner = await start(server, port)
    if kubeconfig is not None:
        write_kubeconfig(kubeconfig, server.url)
    sys.stdout.write(json.dumps({"url": server.url}) + "\n")
    sys.stdout.flush()
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, over.set)
    await over.wait()
    server.watching.drop()
    await runner.cleanup()


def main() -> None:
    """Says {"url": ...} on a line of its own when it serves; ends at SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--objects", type=Path, action="append", default=[])
    parser.add_argument("--kubeconfig", type=Path, help="is written, for kubectl")
    parser.add_argument("--history", type=int, default=20_000, help="changes that are kept for watches")
    parser.add_argument("--fleet", metavar="NODES,INSTANCES,SIZE", help="a big fleet (see kube_sim.fleet)")
    given = parser.parse_args()
    store = Store(history=given.history)
    for path in given.objects:
        load(store, objects_of(path))
    if given.fleet:
        load(store, fleet(*map(int, given.fleet.split(","))))
    asyncio.run(_serve(Server(store, remote_control=True), given.port, given.kubeconfig))


if __name__ == "__main__":
    main()
