"""Asks RAS of the instance: which NCCL, where, what it can do, whether it may be asked, two polls, and what else it
offers; keeps every reply raw."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.ras import locate, outcomes
from rankmuster.collect.ras.address import AddressUnusable
from rankmuster.collect.ras.attempts import Met, NoAnswer
from rankmuster.collect.ras.client import Broken, Service
from rankmuster.collect.ras.diagnostics import ask_diagnostics
from rankmuster.collect.ras.events import Listener
from rankmuster.collect.ras.keep import Shelf
from rankmuster.collect.ras.namespace import NamespaceClosed
from rankmuster.collect.ras.policy import Action, Decision, decide, in_init
from rankmuster.collect.ras.poll import LEAST_SECONDS, Poll, Result, ask_status, patience
from rankmuster.collect.ras.probe import Abilities, probe
from rankmuster.collect.ras.record import Record
from rankmuster.collect.ras.release import Span
from rankmuster.collect.ras.version import NcclVersion, read_version
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import Target

VERSION_SECONDS = 5.0
"""For finding out which NCCL runs; where that is slow (a cold disk), the probe narrows it as well."""

RECORD_SECONDS = 0.3
"""Kept back of the whole time for writing down what was done."""

MAX_MISSES = 3
"""Polls of one query that another job may answer. With two jobs of one user on a node each poll meets ours with one
half; a miss can cost the other job a collection."""

MAX_POLLS = 50
"""Of one query; more are a watcher's."""

GAP_MARGIN = 0.02
"""Seconds on top of the gap: names hold milliseconds, and two polls that are closer than the gap count as one."""


@dataclass(frozen=True, slots=True)
class RasCollector:
    """The collector `ras`. `budget_seconds`: all the time there is, since a risky NCCL waits for the other planes."""

    name: str = "ras"
    budget_seconds: float = 600.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Leaves `ras/<unix time>-<host>.json|txt|error.txt`, `ras/probe.json`, and where NCCL has them
        `ras/events-<unix time>.json` and `ras/diagnostics-<unix time>.txt`."""
        if scene.target is None:
            return Outcome(Ending.NOTHING, "no instance was found on this node, so there is no RAS to ask")
        if not scene.target.processes:
            return Outcome(Ending.NOTHING, "no process of it lives: whoever answers at its address is another's")
        return _Query(scene, scene.target, sink, deadline).run()


class _Query:
    """One run of the collector."""

    def __init__(self, scene: Scene, target: Target, sink: Sink, deadline: Deadline) -> None:
        self._scene = scene
        self._target = target
        self._sink = sink
        self._deadline = deadline.before(RECORD_SECONDS)
        self._wanted = min(max(scene.wishes.ras_polls, 1), MAX_POLLS)
        self._shelf = Shelf(sink, target.host or scene.machine.hostname)
        self._record = Record()
        self._services: list[Service] = []
        self._version = NcclVersion()
        self._warnings: dict[str, None] = {}

    def run(self) -> Outcome:
        """The whole of it, and its record."""
        try:
            outcome = self._ask()
        except NamespaceClosed as error:
            outcome = Outcome(Ending.DENIED, str(error))
        self._warn(*outcomes.silence([one for service in self._services for one in service.attempts]))
        outcome = Outcome(outcome.ending, outcome.note, tuple(self._warnings))
        self._record.outcome = f"{outcome.ending.value}: {outcome.note}"
        self._write_record()
        return outcome

    def _warn(self, *warnings: str) -> None:
        self._warnings |= dict.fromkeys(warnings)

    def _write_record(self) -> None:
        attempts = sorted((one for service in self._services for one in service.attempts), key=lambda one: one.at)
        self._sink.put("ras/probe.json", self._record.as_json(tuple(attempts)), text=True, replace=True)

    def _ask(self) -> Outcome:
        if locate.switched_off(self._target):
            value = self._target.setting("NCCL_RAS_ENABLE")
            return Outcome(Ending.NOTHING, f"RAS is switched off by NCCL_RAS_ENABLE={value}, so it was not looked for")
        self._version = self._read_version()
        self._record.version(self._version)
        if self._target.nccl_loaded is False and self._version.mapped is False:
            who = "of the instance has NCCL loaded" if self._target.workers else "with a rank lives on this node"
            return Outcome(Ending.NOTHING, f"no process {who}, so there is no RAS to ask")
        if self._version.candidates:
            early = self._decide(self._version.candidates)
            if early.action in (Action.NO_RAS, Action.DECLINE):
                return outcomes.declined(early)
        try:
            place = locate.locate(self._scene, self._target, self._deadline)
        except AddressUnusable as error:
            return Outcome(Ending.NOTHING, str(error))
        self._record.address, self._record.network = place.where, place.note
        self._warn(*place.warnings)
        if not place.found:
            return Outcome(Ending.FAILED, f"the host of {place.where} (NCCL_RAS_ADDR) has no address that can be found")
        abilities = self._probe(place)
        if isinstance(abilities, Outcome):
            return abilities
        decision = self._await_decision(abilities)
        if decision.action is not Action.ASK:
            return outcomes.declined(decision)
        return self._query(place, abilities, decision)

    def _read_version(self) -> NcclVersion:
        """Reading the maps of a process waits for its memory lock, which a frozen one may hold for ever."""
        until = self._deadline.within(VERSION_SECONDS)
        try:
            return within(
                until.remaining(), lambda: read_version(self._target, self._scene.machine, until), "ras-version"
            )
        except Late as late:
            return NcclVersion(notes=(f"which NCCL is mapped could not be read ({late})",))

    def _service(self, place: locate.Place) -> Service:
        service = place.service(self._scene)
        self._services.append(service)
        return service

    # What the service can do

    def _probe(self, place: locate.Place) -> Abilities | Outcome:
        """The service's abilities. Where nobody answers, asks as often and as far apart as polls are wanted: a silence
        that lasts says more than one look at it."""
        outcome = Outcome(Ending.FAILED, "no time was left to ask")
        service = self._service(place)
        for look in range(self._wanted):
            if look and not self._wait_gap(service.attempts[-1].at):
                break
            seen = len(service.attempts)
            at = self._scene.now()
            try:
                with service.open(self._deadline) as session:
                    abilities = probe(session, self._deadline)
            except NoAnswer as nobody:
                outcome = outcomes.nobody(place.where, nobody.attempts)
                met = {one.met for one in nobody.attempts}
                silent = [one for one in nobody.attempts if one.met is Met.SILENT]
                refused = [one for one in nobody.attempts if one.met is Met.REFUSED]
                for attempt in silent or (refused or list(nobody.attempts))[-1:]:
                    self._shelf.unanswered(attempt)
                if not met & {Met.SILENT, Met.CLOSED}:
                    return outcome
            except Broken as broken:
                self._shelf.failed(at, str(broken))
                outcome = Outcome(Ending.FAILED, f"{place.where} greeted as RAS does, and then: {broken}")
            else:
                for attempt in service.attempts[seen:]:
                    if attempt.met is Met.SILENT:
                        self._shelf.unanswered(attempt)
                self._record.probed(abilities)
                self._write_record()
                return abilities
        return outcome

    # Whether it may be asked

    def _assessment(self) -> Assessment | None:
        """The assessment if there is one by now."""
        return self._scene.board.assessment(Deadline(self._scene.clock(), self._scene.clock))

    def _decide(self, candidates: tuple[Span, ...], *, final: bool = False) -> Decision:
        dumped = self._scene.board.dumped(Deadline(self._scene.clock(), self._scene.clock))
        decision = decide(candidates, self._scene.wishes.ras_risk, self._assessment(), dumped=dumped, final=final)
        self._record.decided(self._scene.now(), decision)
        self._warn(*decision.warnings)
        return decision

    def _candidates(self, abilities: Abilities) -> tuple[Span, ...]:
        """What was found without asking, narrowed by what the service can do; both, where they contradict."""
        known = self._version.candidates
        fitting = tuple(span for span in known if span.overlaps(abilities.span))
        if fitting or not known:
            return fitting or (abilities.span,)
        self._warn(
            f"the instance has NCCL {' or '.join(map(str, known))} mapped, but a RAS of {abilities.span} answered: "
            "another job of this user on the same port (NCCL_RAS_ADDR gives each its own); the worse is assumed"
        )
        return (*known, abilities.span)

    def _await_decision(self, abilities: Abilities) -> Decision:
        candidates = self._candidates(abilities)
        last_call = self._deadline.before(LEAST_SECONDS)
        while True:
            decision = self._decide(candidates, final=last_call.passed)
            if not decision.waits:
                return decision
            if decision.action is Action.WAIT_FOR_STOP:
                self._scene.board.assessment(last_call)
            else:
                self._scene.board.dumped(last_call)

    def _allows(self, abilities: Abilities) -> bool:
        """Whether the service that answers this very connection may be asked: it may be another than was probed."""
        return self._decide(self._candidates(abilities), final=True).action is Action.ASK

    # Asking

    def _query(self, place: locate.Place, abilities: Abilities, decision: Decision) -> Outcome:
        listener = Listener(self._service(place), self._deadline) if abilities.monitor else None
        if listener is not None:
            listener.start()
        polls = self._polls(place)
        if listener is not None:
            self._keep_events(listener)
        outcome = outcomes.asked(place.where, polls, self._wanted, decision)
        if polls and polls[-1].result is Result.UNSAFE and outcome.ending is Ending.FAILED:
            return outcomes.declined(self._decide(self._candidates(polls[-1].abilities or abilities), final=True))
        if abilities.diagnostics and any(poll.whole for poll in polls):
            return Outcome(outcome.ending, outcome.note + self._diagnostics(place))
        return outcome

    def _polls(self, place: locate.Place) -> list[Poll]:
        service = self._service(place)
        polls: list[Poll] = []
        anothers = misses = 0
        # Of an instance whose workers were not found, no reply can be told from another's.
        known = self._target.processes if self._target.workers else ()
        pids = tuple({process.inner_pid for process in known})
        factor = locate.timeout_factor(self._target)
        while len(polls) < self._wanted:
            if polls and not self._wait_gap(polls[-1].at):
                break
            if misses and self._deadline.remaining() < LEAST_SECONDS:
                break
            until = self._deadline.within(patience(self._deadline.remaining(), self._wanted - len(polls), factor))
            poll = ask_status(service, until, pids=pids, allows=self._allows, factor=factor)
            self._record.polled(poll, self._shelf.poll(poll))
            if poll.result in (Result.ANOTHERS, Result.UNSAFE):
                anothers += poll.result is Result.ANOTHERS
                self._record.another(poll)
                misses += 1
                if misses < MAX_MISSES:
                    continue
                polls += [poll] if poll.result is Result.UNSAFE else []
                break
            polls.append(poll)
        if anothers:
            self._warn(
                f"a different job answered {anothers} time(s) on {place.where}: none of the processes it named is this "
                "instance's; give each instance a NCCL_RAS_ADDR of its own"
            )
        return polls

    def _wait_gap(self, since: float) -> bool:
        """Waits until two looks are far enough apart; False where no time is left for the second."""
        gap = max(self._scene.wishes.ras_gap_seconds, 0.0) + GAP_MARGIN
        wait = min(max(since + gap - self._scene.now(), 0.0), gap)  # bounded: the clock of the day may be set back
        if self._deadline.remaining() < wait + LEAST_SECONDS:
            return False
        threading.Event().wait(wait)
        return True

    def _keep_events(self, listener: Listener) -> None:
        heard = listener.stop()
        path = None
        if heard.data and heard.since is not None:
            path = self._sink.put(
                f"ras/events-{heard.since:.3f}.json", heard.data, look_time=heard.since, host=self._shelf.host
            )
        self._record.events = {"since": heard.since, "note": heard.note, "bytes": len(heard.data), "kept_in": path}

    def _diagnostics(self, place: locate.Place) -> str:
        """RAS's own checks across ranks; returns what to say of it."""
        assessment = self._scene.board.assessment(self._deadline.before(LEAST_SECONDS))
        if assessment is None or in_init(assessment):
            why = "it is not known whether it is in its init" if assessment is None else "it is in its init"
            self._record.diagnostics = {"note": f"not asked: {why}"}
            return f"; no diagnostics, since {why}"
        found = ask_diagnostics(self._service(place), self._deadline)
        path = None
        if found.data:
            name = f"ras/diagnostics-{found.at:.3f}.txt"
            # It prints values of NCCL's variables.
            path = self._sink.put(name, found.data, look_time=found.at, host=self._shelf.host, text=True)
        self._record.diagnostics = {"at": found.at, "note": found.note, "bytes": len(found.data), "kept_in": path}
        return f"; diagnostics: {found.note}"
