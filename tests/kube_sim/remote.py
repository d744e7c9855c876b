"""exec and log: what the kubelet does for the API server. Who simulates it hands over a `Kubelet`.

exec speaks WebSocket, v5.channel.k8s.io and v4 (clients in Python, kubectl from 1.31 on); SPDY is not spoken.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import WSMsgType, web

from kube_sim.problems import ApiProblem, bad_request
from kube_sim.routes import Target
from kube_sim.store import Store

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255


@dataclass(frozen=True, slots=True)
class LogWish:
    """`tail`: lines from the end. `since`: seconds back. `gone`: set when nobody reads any more: who follows ends."""

    pod: dict[str, Any]
    container: str
    previous: bool = False
    follow: bool = False
    tail: int | None = None
    most_bytes: int | None = None
    timestamps: bool = False
    since: float | None = None
    gone: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class Execution:
    """A command that somebody wants run. Its methods are called from the thread in which `Kubelet.execute` runs."""

    pod: dict[str, Any]
    container: str
    command: list[str]
    stdin: bool
    tty: bool
    loop: asyncio.AbstractEventLoop
    socket: web.WebSocketResponse
    incoming: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)
    gone: bool = False
    """The client has left."""

    def read(self) -> bytes:
        """Of standard input, as it comes; empty: there is no more."""
        return self.incoming.get() if self.stdin else b""

    def write(self, data: bytes) -> None:
        """To standard output. Raises BrokenPipeError where nobody reads any more."""
        self._send(_STDOUT, data)

    def write_error(self, data: bytes) -> None:
        self._send(_STDERR, data)

    def _send(self, channel: int, data: bytes) -> None:
        for start in range(0, len(data), 32_768):
            piece = bytes([channel]) + data[start : start + 32_768]
            if self.gone:
                raise BrokenPipeError("the client has left")
            try:
                asyncio.run_coroutine_threadsafe(self.socket.send_bytes(piece), self.loop).result(30)
            except (ConnectionError, RuntimeError, TimeoutError, futures.TimeoutError) as error:
                self.gone = True
                raise BrokenPipeError("the client has left") from error


class Kubelet(Protocol):
    """Raise ApiProblem for what cannot be: a container that does not run, a node that does not answer."""

    def execute(self, call: Execution) -> int:
        """Runs it to its end; its exit status. It is called in a thread of its own."""
        ...

    def log(self, wish: LogWish) -> Iterable[bytes]:
        """Pieces of the log, as they come where it is followed. In a thread of its own."""
        ...


def container_of(pod: dict[str, Any], asked: str | None) -> str:
    """The one that is meant. Raises ApiProblem 400."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [one["name"] for one in spec.get("containers") or ()]
    more = [one["name"] for key in ("initContainers", "ephemeralContainers") for one in spec.get(key) or ()]
    if asked:
        if asked not in names + more:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(names) > 1:
        chosen = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        if chosen in names:
            return str(chosen)
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names + more)}]"
        )
    return names[0]


def _scheduled(store: Store, target: Target) -> dict[str, Any]:
    pod = store.get("pods", target.namespace, target.name or "")
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {target.name} does not have a host assigned")
    return pod


async def execute(
    store: Store, kubelet: Kubelet | None, request: web.Request, target: Target, noted: Callable[[int], None]
) -> web.StreamResponse:
    """Raises ApiProblem before the connection is upgraded; afterwards all is told in the error channel."""
    query = request.query
    pod = _scheduled(store, target)
    container = container_of(pod, query.get("container"))
    command = query.getall("command", [])
    if not command:
        raise bad_request("you must specify at least 1 command for the container")
    if kubelet is None:
        raise ApiProblem(500, "InternalError", f"error dialing backend: no kubelet on {pod['spec']['nodeName']}")
    socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=1 << 26)
    if not socket.can_prepare(request):
        raise bad_request("unable to upgrade: the simulated server speaks WebSocket, not SPDY")
    noted(101)
    await socket.prepare(request)
    loop = asyncio.get_running_loop()
    yes = {"1", "true", "True"}
    call = Execution(pod, container, command, query.get("stdin") in yes, query.get("tty") in yes, loop, socket)
    running = loop.run_in_executor(None, _run, kubelet, call)
    reading = asyncio.ensure_future(_read(socket, call))
    try:
        status = await running
        if not call.gone:
            await socket.send_bytes(bytes([_ERROR]) + json.dumps(status).encode())
    except ConnectionError:
        pass
    finally:
        call.gone = True
        await socket.close()
        reading.cancel()
    return socket


def _run(kubelet: Kubelet, call: Execution) -> dict[str, Any]:
    try:
        status = kubelet.execute(call)
    except ApiProblem as problem:
        return problem.body()
    except BrokenPipeError:
        return {}
    except Exception as error:  # a kubelet that fails is told, as the real one does it
        return ApiProblem(500, "InternalError", f"Internal error occurred: {error!r}").body()
    if status == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {status}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(status)}]},
    }


async def _read(socket: web.WebSocketResponse, call: Execution) -> None:
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            data = message.data.encode()
        elif message.type is WSMsgType.BINARY:
            data = message.data
        else:
            continue
        if data[:1] == bytes([_STDIN]) and len(data) > 1:
            call.incoming.put(data[1:])
        elif data[:2] == bytes([_CLOSE, _STDIN]):
            call.incoming.put(b"")
    call.gone = True
    call.incoming.put(b"")


async def log(
    store: Store, kubelet: Kubelet | None, request: web.Request, target: Target, noted: Callable[[int], None]
) -> web.StreamResponse:
    """Raises ApiProblem."""
    query = request.query
    pod = _scheduled(store, target)
    yes = {"1", "true", "True"}
    wish = LogWish(
        pod,
        container_of(pod, query.get("container")),
        previous=query.get("previous") in yes,
        follow=query.get("follow") in yes,
        tail=int(query["tailLines"]) if query.get("tailLines") else None,
        most_bytes=int(query["limitBytes"]) if query.get("limitBytes") else None,
        timestamps=query.get("timestamps") in yes,
        since=float(query["sinceSeconds"]) if query.get("sinceSeconds") else None,
    )
    if kubelet is None:
        raise ApiProblem(500, "InternalError", f"Get log: dial tcp: no kubelet on {pod['spec']['nodeName']}")
    loop = asyncio.get_running_loop()
    pieces = iter(await loop.run_in_executor(None, kubelet.log, wish))
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    noted(200)
    await response.prepare(request)
    left = wish.most_bytes
    try:
        while left != 0 and (piece := await loop.run_in_executor(None, next, pieces, None)) is not None:
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            await response.write(piece)
        await response.write_eof()
    finally:
        wish.gone.set()
    return response
