"""Asks torch's worker servers for what the recorders hold: NCCL's and gloo's, twice, so that progress can be told.

JSON has no stacks and needs no interpreter lock (15 to 25 ms for 2,000 entries), so a healthy instance may be asked for
it. A dump with stacks takes seconds of every rank, and is asked for only when the instance is not healthy.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rankmuster.collect.bounded import all_within
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight.decide import decide
from rankmuster.collect.flight.dump_file import looks_like_dump
from rankmuster.collect.flight.http_reply import NoReply, exchange
from rankmuster.collect.flight.worker_server import WorkerServer, configured, find_servers
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.process_now import state_of, why_not_running
from rankmuster.collect.sink import Sink, SinkClosed, SinkFull
from rankmuster.collect.wishes import DumpWish

NAMES_SECONDS = 2.0
"""For the list of what a server can be asked; a process whose server thread lives answers in milliseconds."""

JSON_SECONDS = 4.0
"""For one JSON dump; 25 ms where the process is not short of processors."""

STACKS_SECONDS = 10.0
"""For a dump with stacks: 1.2 to 5 s for 2,000 entries, and for ever while the interpreter's lock is held."""

RESERVE_SECONDS = 1.0
"""Kept of the deadline after the second look, for the last replies."""

_JSON = {
    "dump_nccl_trace_json": "flight/nccl_trace_rank_{}.json",
    "fr_trace_json": "flight/fr_trace_rank_{}.json",
}
_WHOLE = "?includecollectives=true&onlyactive=false"
_STACKS = "dump_nccl_trace_pickle"
_STACKS_QUERY = "?includecollectives=true&includestacktraces=true&onlyactive=false"


@dataclass(frozen=True, slots=True)
class DebugServer:
    """The collector. `addresses`: servers that the operator knows of, as `RANK=http://HOST:PORT`, besides those found.

    `evidence`: what it takes speaks of the instance.
    """

    addresses: tuple[str, ...] = ()
    name: str = "flight-http"
    budget_seconds: float = 18.0
    evidence: bool = True

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """See `Collector.collect`."""
        if scene.wishes.dumps is DumpWish.NEVER:
            return Outcome(Ending.DECLINED, "the recorders were not asked: dumps are not wanted (--dumps never)")
        servers, problems = configured(self.addresses)
        workers = scene.target.workers if scene.target is not None else ()
        found, said = find_servers(scene.machine.proc, workers, deadline)
        servers, problems = servers + found, problems + said
        if not servers:
            if problems:
                return Outcome(Ending.FAILED, f"no worker server could be asked: {'; '.join(problems)}")
            return Outcome(Ending.NOTHING, _nobody(scene, len(workers)))
        return _Asking(scene, sink, deadline, servers, problems).run()


def _nobody(scene: Scene, workers: int) -> str:
    if scene.target is None:
        return "no instance was found, so there is no process whose debug server could be asked"
    if not workers:
        return "no process with a rank lives on this node, so none has a debug server to ask"
    return f"none of {workers} process(es) runs torch's debug server"


class _Asking:
    """One run of it."""

    def __init__(
        self, scene: Scene, sink: Sink, deadline: Deadline, servers: list[WorkerServer], problems: list[str]
    ) -> None:
        self._scene, self._sink, self._deadline = scene, sink, deadline
        self._problems = problems
        self._servers = [server for server in servers if self._runs(server)]
        self._abilities: dict[WorkerServer, frozenset[str]] = {}

    def run(self) -> Outcome:
        first = self._scene.clock()
        for server, answer in self._all(self._names, NAMES_SECONDS):
            if isinstance(answer, frozenset):
                self._abilities[server] = answer
        looks = 1
        self._look()
        wait = first + self._scene.wishes.look_seconds - self._scene.clock()
        if self._taken and self._deadline.remaining() > max(wait, 0) + RESERVE_SECONDS:
            threading.Event().wait(max(wait, 0))
            self._look()
            looks = 2
        stacks = self._with_stacks()
        return self._outcome(looks, stacks)

    @property
    def _taken(self) -> int:
        return len(self._sink.pieces)

    def _runs(self, server: WorkerServer) -> bool:
        """A frozen process accepts connections and never answers; they would wait for it in vain."""
        if server.process is None:
            return True
        why = why_not_running(state_of(self._scene.machine.proc, server.process))
        if why is not None:
            self._problems.append(f"{server.who}: {why}")
        return why is None

    def _look(self) -> None:
        self._all(self._snapshots, JSON_SECONDS)

    def _snapshots(self, server: WorkerServer, deadline: Deadline) -> None:
        failed: list[str] = []
        for name, path in _JSON.items():
            if name in self._abilities.get(server, ()):
                try:
                    self._take(server, name + _WHOLE, path, deadline)
                except NoReply as error:
                    failed.append(str(error))
        if failed:
            raise NoReply("; ".join(failed))

    def _with_stacks(self) -> str:
        able = [server for server in self._abilities if _STACKS in self._abilities[server]]
        if not able:
            return ""
        patience = self._deadline.before(min(STACKS_SECONDS, self._deadline.remaining() / 2))
        assessment = None if self._scene.wishes.stop_confirmed else self._scene.board.assessment(patience)
        decision = decide(self._scene.wishes, assessment, last=True)
        if decision is None or not decision.ask:
            return f"; {decision.note}" if decision else ""
        self._all(self._stacks, STACKS_SECONDS, able)
        return "; with stacks too"

    def _stacks(self, server: WorkerServer, deadline: Deadline) -> None:
        self._take(server, _STACKS + _STACKS_QUERY, "flight/nccl_trace_rank_{}", deadline)

    def _take(self, server: WorkerServer, request: str, path: str, deadline: Deadline) -> None:
        look = self._scene.now()
        body = _ask(server, "POST", f"/handler/{request}", deadline)
        if not looks_like_dump(path, body):
            raise NoReply(f"{request.partition('?')[0]} brought {len(body)} bytes that are no dump: {body[:60]!r}")
        place = path.format(server.rank) if server.rank is not None else path.replace("rank_{}", server.who)
        host = self._scene.target.host if self._scene.target and server.process else None
        self._sink.put(place, body, look_time=look, rank=server.rank, host=host)

    def _names(self, server: WorkerServer, deadline: Deadline) -> frozenset[str]:
        try:
            names = json.loads(_ask(server, "GET", "/handler/", deadline))
        except ValueError as error:
            raise NoReply("its list of handlers is no JSON") from error
        return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()

    def _all(
        self,
        work: Callable[[WorkerServer, Deadline], object],
        seconds: float,
        servers: list[WorkerServer] | None = None,
    ) -> list[tuple[WorkerServer, object]]:
        """Does `work` for all servers at once; what went wrong is remembered by server."""
        asked = self._servers if servers is None else servers
        limit = self._deadline.within(seconds)
        answers = all_within(limit, [partial(work, server, limit) for server in asked])
        for server, answer in zip(asked, answers, strict=True):
            if isinstance(answer, (SinkClosed, SinkFull)):
                raise answer
            if isinstance(answer, BaseException):
                said = f"{server.who}: {answer}"
                if said not in self._problems:
                    self._problems.append(said)
        return list(zip(asked, answers, strict=True))

    def _outcome(self, looks: int, stacks: str) -> Outcome:
        problems = "; ".join(self._problems)
        if not self._taken:
            return Outcome(Ending.FAILED, f"no worker server gave a dump: {problems or 'none knows how to'}")
        note = f"{self._taken} dump(s) from {len(self._abilities)} worker server(s), {looks} look(s){stacks}"
        if problems:
            return Outcome(Ending.PARTIAL, f"{note}; {problems}")
        return Outcome(Ending.DONE, note)


def _ask(server: WorkerServer, method: str, path: str, deadline: Deadline) -> bytes:
    """The body of a good reply. Raises NoReply."""
    try:
        connection = server.connect(deadline)
    except OSError as error:
        raise NoReply(f"no connection ({error.strerror or error})") from error
    reply = exchange(connection, method, path, deadline)
    if reply.status != 200:
        raise NoReply(f"{path.partition('?')[0]} was answered with {reply.status}: {reply.body[:80]!r}")
    return reply.body
