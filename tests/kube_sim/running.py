"""Running the simulated API server in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import yaml
from aiohttp import web

from kube_sim.remote import Kubelet
from kube_sim.server import MOST_BODY, Server
from kube_sim.store import Store


async def start(server: Server, port: int = 0, host: str = "127.0.0.1") -> web.AppRunner:
    """In the running loop. `cleanup` of what it gives ends it."""
    app = web.Application(client_max_size=MOST_BODY)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    server.url = f"http://{host}:{runner.addresses[0][1]}"
    return runner


@contextmanager
def serving(
    store: Store, *, kubelet: Kubelet | None = None, port: int = 0, bookmark_seconds: float = 60.0
) -> Iterator[Server]:
    """A server until the end of the block; its `url` says where. A request that made it fail is raised at its end."""
    server = Server(store, kubelet=kubelet, bookmark_seconds=bookmark_seconds)
    loop = asyncio.new_event_loop()
    pool = ThreadPoolExecutor(32, thread_name_prefix="kubelet")
    loop.set_default_executor(pool)
    runner: list[web.AppRunner] = []
    up = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            runner.append(loop.run_until_complete(start(server, port)))
        except BaseException as error:
            failed.append(error)
            up.set()
            return
        up.set()
        loop.run_forever()
        server.watching.drop()
        loop.run_until_complete(runner[0].cleanup())
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())

    thread = threading.Thread(target=run, name="kube-sim", daemon=True)
    thread.start()
    up.wait()
    try:
        if failed:
            raise failed[0]
        yield server
    finally:
        if not failed:
            loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        pool.shutdown(wait=False, cancel_futures=True)
        loop.close()
    if server.failures:
        raise server.failures[0]


def write_kubeconfig(path: Path, url: str, *, token: str = "", namespace: str = "default") -> Path:
    """With which kubectl and clients find it."""
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": {"server": url}}],
        "users": [{"name": "tester", "user": {"token": token} if token else {}}],
        "contexts": [
            {"name": "simulated", "context": {"cluster": "simulated", "user": "tester", "namespace": namespace}}
        ],
        "current-context": "simulated",
    }
    path.write_text(yaml.safe_dump(settings))
    return path
