"""The sidecar: what the ranks of one pod say and leave, watched, handed out, and out of the pod before it is gone.

It owns RAS (which never leaves loopback), dump pipes and files, logs and the engine's page. GPUs are the node agent's.
Once it serves it ends for nothing but a signal: any restart in a pod counts, and a LeaderWorkerSet rebuilds its group
for one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rankmuster.adapters.kube.agent_wire import ENDING, POD_UID, SHA256
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.wishes import UNKNOWN
from rankmuster.kube.agents import wire
from rankmuster.kube.agents.handing import hand_over
from rankmuster.kube.agents.outbox import Letter, Outbox
from rankmuster.kube.agents.roll import LOOK_SECONDS, NAME, Roll
from rankmuster.kube.agents.server import Answer, Asked, ListenRefused, Route, Server, trouble
from rankmuster.kube.agents.taking import Busy, Taken, Taker
from rankmuster.kube.agents.token import Token
from rankmuster.kube.agents.watching import Watching
from rankmuster.watch.export.state_file import NoState, StateRefused, encode, freshness, read_state

LISTEN_PAUSE = 5.0
"""Between two attempts at an address that another program has."""

END_SECONDS = 6.0
"""Of a collection when nothing of the engine lives: files are all that is left, and a pod's end does not wait."""

LOGS = (".log", ".out", ".err", ".txt")
MOST_LOGS = 32

FIND_SECONDS = 3.0
"""Between two searches for the engine: a pod has some dozen processes, and which GPU is whose comes a moment later."""

_PART = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """`folder`: where the ranks leave their evidence. `work`: this process's own, which nobody else may write. `agent`:
    URL of the node agent, None where there is none. `grace`: seconds from SIGTERM until it must be gone.
    `instance`: as the pod's environment has it, empty where nobody says."""

    listen: str
    token: Path
    folder: Path
    work: Path
    agent: str | None = None
    metrics_url: str | None = None
    instance: str = ""
    pod_uid: str = ""
    pod_name: str = ""
    grace: float = 25.0
    watch: bool = True
    watch_listen: str | None = None
    period: float = 5.0


class Sidecar:
    """`run` until `stop` is set. `say`: writes one line into the pod's log."""

    def __init__(self, settings: SidecarSettings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._token = Token(settings.token)
        self._taker = Taker(settings.work / "bundles", time.monotonic)
        self._roll = Roll(settings.work / "run", settings.instance)
        self._watching = Watching(settings.work / "watch", self._watch_settings(), say, time.monotonic)
        self._outbox = Outbox(self._hand, say, time.monotonic)
        self._end_taken = threading.Event()  # what this end of the engine left is taken, or is being taken
        self._ending: threading.Thread | None = None

    def run(self, stop: threading.Event) -> None:
        """Serves, watches, and at the end takes what is left."""
        self._prepare()
        if self._settings.watch:
            self._watching.start()
        server = self._serve(stop)
        with contextlib.suppress(KeyboardInterrupt):
            self._look(stop)
        began = time.monotonic()
        self._watching.close()
        self._last(Deadline(began + self._settings.grace))
        if server is not None:
            server.close()

    # what it serves

    def routes(self) -> tuple[Route, ...]:
        """See `wire`."""
        return (
            Route("GET", "/healthz", lambda _: Answer(200, b"ok\n", "text/plain"), open=True),
            Route("GET", "/v1/state", self._state),
            Route("POST", "/v1/collect", self._collect, most=wire.MAX_WISH, seconds=wire.MOST_SECONDS + 60.0),
        )

    def _serve(self, stop: threading.Event) -> Server | None:
        told = ""
        while not stop.is_set():
            try:
                server = Server(self._settings.listen, self.routes(), self._token.allows)
            except ListenRefused as error:
                if str(error) != told:
                    told = str(error)
                    self._say(f"{told}; tried again every {LISTEN_PAUSE:.0f} s")
                self._look(stop, LISTEN_PAUSE)
                continue
            host, port = server.address
            self._say(f"serving on {host}:{port}, evidence in {self._settings.folder}")
            return server
        return None

    def _state(self, asked: Asked) -> Answer:
        wrong = self._anothers(asked)
        if wrong is not None:
            return wrong
        try:
            snapshot = read_state(self._watching.state)
        except (NoState, StateRefused) as error:
            return trouble(503, str(error))
        now = freshness(snapshot, time.time())
        if now.stale:
            return trouble(503, now.words)
        return Answer(200, encode(snapshot))

    def _anothers(self, asked: Asked) -> Answer | None:
        """Who asks for another pod, which had this address, would take what we say for its. A pod of the same instance
        is another one, too: our ranks would be there twice, and its not at all."""
        own, meant = self._settings.pod_uid, asked.headers.get(POD_UID.lower(), "")
        if not own or not meant or own == meant:
            return None
        return trouble(422, f"this is pod {own}, and {meant} was meant: is its address another's?")

    def _collect(self, asked: Asked) -> Answer:
        try:
            wish = wire.read_wish(asked.whole())
        except wire.WishRefused as refused:
            return trouble(400, str(refused))
        wrong = self._anothers(asked)
        if wrong is not None:
            return wrong
        own = self._settings.pod_uid
        if own and wish.pods and own not in {pod.uid for pod in wish.pods}:
            return trouble(422, f"this is pod {own}, and it is not among those wished: is its address another's?")
        try:
            taken, handle = self._taker.take("wish", self._options(wish), wish.seconds, self._keep)
        except Busy as error:
            return trouble(503, str(error))
        return bundle_answer(taken, handle)

    # what it takes

    def _options(self, wish: wire.Wish | None) -> list[str]:
        settings = self._settings
        found = ["--part", "pod", "--run-folder", str(settings.work / "run")]
        found += self._whom()
        name = settings.instance or (wish.instance if wish is not None else "")
        if name:
            found += ["--as-instance", name]
        # a guess from here would contradict whoever knows: the incarnation is the first pod's
        found += ["--as-incarnation", (wish.incarnation if wish is not None else None) or UNKNOWN]
        if wish is not None and wish.stopped:
            found.append("--stop-confirmed")
        if settings.metrics_url:
            found += ["--metrics-url", settings.metrics_url]
        return [*found, *(word for path in self._logs() for word in ("--left", str(path)))]

    def _logs(self) -> list[Path]:
        """What lies in the shared volume beside NCCL's own files, newest first: nobody lives who would lead there."""
        try:
            found = [path for path in self._settings.folder.iterdir() if path.suffix in LOGS]
            found = [path for path in found if not path.name.startswith("nccl_") and not path.is_symlink()]
            return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_LOGS]
        except OSError:
            return []

    def _whom(self) -> list[str]:
        target = self._roll.target
        if target is None:
            return []
        if self._roll.ended:
            return ["--instance", NAME, "--look", "0.5"]  # nothing moves any more
        living = [one.pid for one in target.workers or target.processes if one.state not in ("X", "Z")]
        return [word for pid in living[:64] for word in ("--pid", str(pid))]

    def _keep(self, taken: Taken, kind: str = "wish") -> None:
        """What the controller wished goes to the agent as well: whoever wished it may be gone when it comes."""
        if self._settings.agent is None or taken.bundle is None:
            return
        copy = taken.bundle.with_name(f"out-{taken.bundle.name}")
        try:
            os.link(taken.bundle, copy)
        except OSError as error:
            self._say(f"a bundle cannot be kept for the agent: {error.strerror}")
            return
        self._outbox.put(Letter(copy, self._name(kind), taken.sha256, taken.size))

    def _hand(self, letter: Letter, deadline: Deadline) -> str:
        settings = self._settings
        assert settings.agent is not None
        return hand_over(
            letter.bundle,
            letter.name,
            letter.sha256,
            letter.size,
            settings.agent,
            pod_uid=settings.pod_uid or "unknown",
            instance=settings.instance,
            headers=self._token.header(),
            deadline=deadline,
        )

    def _name(self, kind: str) -> str:
        at = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%fZ")
        whose = _PART.sub("-", self._settings.instance or "instance").strip(".-")[:80] or "instance"
        pod = _PART.sub("-", self._settings.pod_uid or self._settings.pod_name).strip(".-")[:40] or "pod"
        return f"{whose}_{pod}_{at}_{kind}.tar.zst"

    # what it sees

    def _look(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Looks at the engine once a second; takes what is left of it as soon as nothing of it lives."""
        until = None if seconds is None else Deadline.after(seconds)
        while not stop.is_set() and (until is None or not until.passed):
            try:
                self._roll.look(Deadline.after(LOOK_SECONDS))
                if not self._roll.ended:
                    self._end_taken.clear()
                elif not self._end_taken.is_set():
                    self._end_taken.set()
                    self._ending = threading.Thread(target=self._take_end, args=("end", END_SECONDS), daemon=True)
                    self._ending.start()
            except Exception as error:
                # whatever it is: this process does not end for it
                self._say(f"looking at the engine failed: {type(error).__name__}: {error}")
            stop.wait(LOOK_SECONDS)

    def _last(self, deadline: Deadline) -> None:
        """The pod is being deleted."""
        self._roll.told_to_end("Kubernetes, which ends the pod")
        with contextlib.suppress(Exception):
            self._roll.look(deadline.within(LOOK_SECONDS))
        if self._ending is not None:
            self._ending.join(deadline.remaining())
        if self._roll.target is not None and not self._end_taken.is_set():
            self._take_end("last", min(END_SECONDS, max(deadline.remaining() / 2, wire.LEAST_SECONDS)))
        self._outbox.flush(deadline)

    def _take_end(self, kind: str, seconds: float) -> None:
        try:
            taken, handle = self._taker.take(
                ("end", kind), self._options(None), seconds, lambda one: self._keep(one, kind)
            )
        except Busy as error:
            self._say(f"what the engine left is not taken: {error}")
            return
        if handle is not None:
            handle.close()
        if taken.bundle is None:
            self._say(f"what the engine left could not be taken: {taken.note}")

    # where it works

    def _prepare(self) -> None:
        for folder, mode in ((self._settings.folder, 0o1777), (self._settings.work, 0o700)):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(PermissionError):
                    folder.chmod(mode)
            except OSError as error:
                self._say(f"{folder} cannot be used ({error.strerror}): is a volume mounted there?")
        with contextlib.suppress(OSError):
            shutil.rmtree(self._settings.work / "watch", ignore_errors=True)

    def _watch_settings(self) -> dict[str, Any]:
        settings = self._settings
        found: dict[str, Any] = {
            "period": settings.period,
            "find_seconds": max(settings.period, FIND_SECONDS),
            "on_stop": {"collect": False, "diagnose": False},
            "logs": {"kernel": False},
            "hardware": {"source": "auto", "rdma": False},  # without an agent it says that no driver is here
        }
        if settings.metrics_url:
            found["engine"] = {"urls": {"*": [settings.metrics_url]}}
        if settings.agent is not None:
            page = f"{settings.agent.rstrip('/')}/hardware"
            if settings.pod_uid:
                page += f"?pod={settings.pod_uid}"
            found["hardware"] = {"source": "dcgm", "dcgm_url": page, "rdma": False}
        if settings.watch_listen:
            found["listen"] = settings.watch_listen
        return found


def bundle_answer(taken: Taken, handle: Any) -> Answer:
    """A bundle on its way to who wished it, or why there is none."""
    if handle is None:
        return trouble(500, taken.note or "there is no bundle")
    headers: Mapping[str, str] = {
        SHA256: taken.sha256,
        ENDING: "partial" if taken.partial else "done",
        wire.NOTE: json.dumps(taken.note[:1000]),
    }
    return Answer(200, content_type=wire.BUNDLE_TYPE, headers=headers, file=handle)
