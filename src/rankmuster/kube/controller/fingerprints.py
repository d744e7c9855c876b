"""What the nodes' agents have read of their nodes, asked now and then; whoever wants to know gets it at once."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.agent_wire import NoAnswer, agent_at
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.kube.controller.fleet import Fleet
from rankmuster.model.fingerprint import Fingerprint

ASK_SECONDS = 10.0
"""An agent has it at hand; the first time it reads its node."""

EVERY_SECONDS = 300.0
"""Between two questions to one agent: a driver or a NIC changes with a reboot, which the node itself tells at once."""

AT_ONCE = 8


class Fingerprints:
    """`changed(node)`: told where an agent says something else than before."""

    def __init__(
        self, calls: AgentCall, fleet: Fleet, port: int, *, clock: Clock, changed: Callable[[str], object]
    ) -> None:
        self._calls, self._fleet, self._port, self._clock, self._changed = calls, fleet, port, clock, changed
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, Fingerprint]] = {}
        self._due: dict[str, float] = {}
        self._asked: set[str] = set()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="agents")

    def of(self, node: str) -> Fingerprint | None:
        """None where its agent has not said anything."""
        with self._lock:
            found = self._known.get(node)
        return found[1] if found is not None else None

    def turn(self) -> None:
        """Asks those that are due; returns at once."""
        now = self._clock()
        views = {one.name: one for one in self._fleet.nodes()}
        with self._lock:
            for name in [one for one in self._known if one not in views]:
                del self._known[name]
            for name, view in views.items():
                if not view.gpus or view.address is None or name in self._asked or now < self._due.get(name, 0.0):
                    continue
                if len(self._asked) >= 2 * AT_ONCE:
                    break
                self._asked.add(name)
                self._due[name] = now + EVERY_SECONDS
                self._pool.submit(self._ask, name, view.uid, view.address)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, name: str, uid: str, address: str) -> None:
        changed = False
        # an agent that is away says nothing, and nothing is concluded from it
        with contextlib.suppress(NoAnswer, FingerprintRefused):
            deadline = Deadline.after(ASK_SECONDS, self._clock)
            said = self._calls.fingerprint(agent_at(name, address, self._port), deadline)
            found = read_fingerprint(json.dumps(said).encode())
            with self._lock:
                changed = self._known.get(name) != (uid, found)
                self._known[name] = (uid, found)
        with self._lock:
            self._asked.discard(name)
        if changed:
            self._changed(name)
