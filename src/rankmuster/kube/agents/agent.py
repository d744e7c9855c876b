"""The node agent: what the node says of its pods' ranks, and where their bundles lie when the pods are gone.

It owns the hardware and kernel planes: GPUs, /sys, kernel log, topology, fingerprint. It never asks RAS, no pipe and no
engine. A DaemonSet with the host's pid namespace, without any access to the API server.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.kube.agent_wire import POD_UID, SHA256
from rankmuster.kube.agents import wire
from rankmuster.kube.agents.fingerprint_now import FingerprintNow
from rankmuster.kube.agents.hardware_page import HardwarePage
from rankmuster.kube.agents.pods_here import PodHere, pods_here
from rankmuster.kube.agents.server import Answer, Asked, ListenRefused, Route, Server, trouble
from rankmuster.kube.agents.shelf import MOST_BUNDLES, MOST_BYTES, NotKept, Shelf
from rankmuster.kube.agents.sidecar import LISTEN_PAUSE, bundle_answer
from rankmuster.kube.agents.taking import Busy, Taker
from rankmuster.kube.agents.token import Token
from rankmuster.kube.agents.uploading import Uploading

MOST_LISTED = 1000
MOST_PIDS = 256


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`folder`: on the node's disk. `dcgm_url`: page of a DCGM exporter, None: NVML. `upload`: where copies go."""

    listen: str
    token: Path
    folder: Path
    dcgm_url: str | None = None
    upload: str | None = None
    upload_seconds: float = 300.0
    most_bundles: int = MOST_BUNDLES
    most_bytes: int = MOST_BYTES
    proc: Path = Path("/proc")
    node: str = ""


class NodeAgent:
    """`run` until `stop` is set. Raises OSError where its folder cannot be used."""

    def __init__(self, settings: AgentSettings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._token = Token(settings.token)
        self._shelf = Shelf(
            settings.folder / "bundles", time.time, most_bundles=settings.most_bundles, most_bytes=settings.most_bytes
        )
        self._taker = Taker(settings.folder / "taking", time.monotonic)
        self._fingerprint = FingerprintNow(time.monotonic)
        self._page = HardwarePage(settings.dcgm_url, settings.proc, settings.node, time.monotonic)
        self._uploading = (
            Uploading(self._shelf, settings.upload, settings.upload_seconds, say) if settings.upload else None
        )

    def run(self, stop: threading.Event) -> None:
        """Serves."""
        if self._uploading is not None:
            self._uploading.start()
        told = ""
        while not stop.is_set():
            try:
                server = Server(self._settings.listen, self.routes(), self._token.allows)
            except ListenRefused as error:
                if str(error) != told:
                    told = str(error)
                    self._say(f"{told}; tried again every {LISTEN_PAUSE:.0f} s")
                stop.wait(LISTEN_PAUSE)
                continue
            host, port = server.address
            self._say(f"serving on {host}:{port}, bundles in {self._shelf.folder}")
            stop.wait()
            server.close()
        self._page.close()
        if self._uploading is not None:
            self._uploading.close()

    def routes(self) -> tuple[Route, ...]:
        """See `wire`."""
        return (
            Route("GET", "/healthz", lambda _: Answer(200, b"ok\n", "text/plain"), open=True),
            Route("GET", "/hardware", self._hardware, open=True, seconds=10.0),
            Route("POST", "/v1/collect", self._collect, most=wire.MAX_WISH, seconds=wire.MOST_SECONDS + 60.0),
            Route("GET", "/v1/bundles", self._list),
            Route("GET", "/v1/bundles/", self._get),
            Route("PUT", "/v1/bundles/", self._put, most=wire.MAX_BUNDLE, seconds=60.0),
            Route("GET", "/v1/fingerprint", self._fingerprinted, seconds=90.0),
        )

    def _hardware(self, asked: Asked) -> Answer:
        return self._page.answer(asked.query.get("pod"))

    def _collect(self, asked: Asked) -> Answer:
        try:
            wish = wire.read_wish(asked.whole())
        except wire.WishRefused as refused:
            return trouble(400, str(refused))
        if not wish.pods:
            return trouble(422, "no pod is named: whose GPUs are meant?")
        here = pods_here(self._settings.proc, {pod.uid for pod in wish.pods})
        key = ("node", frozenset(here), wish.instance)
        try:
            taken, handle = self._taker.take(key, _options(wish, here), wish.seconds)
        except Busy as error:
            return trouble(503, str(error))
        return bundle_answer(taken, handle)

    def _list(self, asked: Asked) -> Answer:
        cards = self._shelf.cards(asked.query.get("pod"))[-MOST_LISTED:]
        return Answer(200, json.dumps([card.listed() for card in cards]).encode())

    def _get(self, asked: Asked) -> Answer:
        card, handle = self._shelf.card(asked.path), self._shelf.open(asked.path)
        if card is None or handle is None:
            return trouble(404, "there is no bundle of that name here")
        return Answer(200, content_type=wire.BUNDLE_TYPE, headers={SHA256: card.sha256}, file=handle)

    def _put(self, asked: Asked) -> Answer:
        headers = asked.headers
        try:
            card = self._shelf.put(
                asked.path,
                asked.length,
                asked.body,
                sha256=headers.get(SHA256.lower(), ""),
                pod_uid=headers.get(POD_UID.lower(), ""),
                instance=headers.get(wire.INSTANCE.lower(), "")[:253],
            )
        except NotKept as refused:
            return trouble(refused.status, str(refused))
        if self._uploading is not None:
            self._uploading.wake()
        return Answer(201, json.dumps(card.listed()).encode())

    def _fingerprinted(self, asked: Asked) -> Answer:
        return self._fingerprint.answer(again=asked.query.get("again") == "1")


def _options(wish: wire.Wish, here: Mapping[str, PodHere]) -> list[str]:
    found = ["--part", "node", "--as-instance", wish.instance, "--dumps", "never", "--ras-risk", "never", "--no-stacks"]
    if wish.incarnation:
        found += ["--as-incarnation", wish.incarnation]
    pids = sorted(pid for pod in here.values() for pid in pod.engine)[:MOST_PIDS]
    if not pids:
        return [*found, "--instance", wish.instance]  # it has ended: what the node says is taken all the same
    return [*found, "--as-pods", *(word for pid in pids for word in ("--pid", str(pid)))]
