"""One instance behind HAProxy, through the runtime socket of every HAProxy process that serves it.

`drain`: no new requests, but for those that a cookie or a stick table binds to the server; what runs goes on. `maint`:
nothing gets there, what runs goes on; `shutdown sessions` ends it. A reload forgets all of it (unless the state file is
loaded), and `look` then shows READY again. All processes are asked at once: one that hangs holds up none of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rankmuster.adapters.haproxy_answers import NoServer, ServerStat, ServerState
from rankmuster.adapters.haproxy_at_once import Part, Work, answer_of, at_once, notes_of
from rankmuster.adapters.haproxy_process import POLL_SECONDS, HaproxyProcess, Trouble
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState

CUT_ROUNDS = 3
"""How often sessions are shut: one may have been given to the server just before it went into maintenance."""


class Haproxy:
    """A Traffic. `full_weight`: None for the one in HAProxy's configuration, which it keeps (`srv_iweight`)."""

    def __init__(
        self,
        name: str,
        sockets: Sequence[str],
        backend: str,
        server: str,
        full_weight: int | None = None,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._full = full_weight
        self._processes = [HaproxyProcess(one, backend, server, pause) for one in sockets]
        self._target = f"{backend}/{server}"

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    # -- Traffic -------------------------------------------------------------------------------------------------------

    def look(self, deadline: Deadline) -> TrafficLook:
        """All processes together. UNKNOWN where one of them could not be seen."""
        parts = at_once(self._processes, self._see, deadline)
        unseen = [part for part in parts if part.ending is not Ending.DONE]
        if unseen:
            return TrafficLook(state=TrafficState.UNKNOWN, note=notes_of(unseen))
        seen = [part.data for part in parts if part.data]
        if not seen:
            return TrafficLook(state=TrafficState.ABSENT, note=notes_of(parts))
        states: list[ServerState] = [one["state"] for one in seen]
        stats: list[ServerStat] = [one["stat"] for one in seen]
        running = sum(one.running for one in stats)
        notes = [notes_of(parts)] if any(part.note for part in parts) else []
        if len(seen) < len(parts) or len({one.maint or one.drain for one in states}) > 1:
            state = TrafficState.MIXED
            notes += [f"{part.socket}: {part.data['stat'].status}" for part in parts if part.data]
        elif all(one.maint for one in states):
            state = TrafficState.STOPPED if running else TrafficState.CUT
            notes += ["it is in maintenance, and what runs goes on"] if running else []
        elif states[0].maint or states[0].drain:
            state = TrafficState.STOPPED
        else:
            state = TrafficState.READY
            down = [one.status for one in stats if one.status.startswith("DOWN")]
            notes += [f"it may get requests, but a health check says {down[0]}"] if down else []
        percents = [self._percent(one) for one in states]
        known = [one for one in percents if one is not None]
        return TrafficLook(
            state=state,
            running=running,
            queued=sum(one.queued for one in stats),
            percent=max(known) if len(known) == len(percents) else None,
            note="; ".join(notes),
        )

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """Into drain. One that is in maintenance stays so. Data: `before`, `running`; `cookie` where some are bound."""
        del reason  # HAProxy has no place for it

        def work(process: HaproxyProcess, until: Deadline) -> Part:
            before = process.state(until)
            stat = process.stat(until)
            if not (before.maint or before.drain):
                process.change(f"set server {process.target} state drain", until)
                process.until(lambda state: state.maint or state.drain, "drain", until)
                note = f"{process.target} is in drain, {stat.running} requests run"
            else:
                note = f"{process.target} was stopped already ({stat.status})"
            if stat.cookie and not before.maint:
                note += "; it has a cookie: requests that are bound to it still come"
            data = {"before": _word(before), "running": stat.running, "cookie": stat.cookie}
            return Part(process.socket, Ending.DONE, note, data)

        return self._all(work, deadline)

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """Into maintenance, and its sessions are shut: clients see what the error files say (docs/gateways.md)."""
        del reason

        def work(process: HaproxyProcess, until: Deadline) -> Part:
            before = process.state(until)
            if not before.maint:
                process.change(f"set server {process.target} state maint", until)
                process.until(lambda state: state.maint, "maint", until)
            first = left = process.stat(until).running
            for _ in range(CUT_ROUNDS):
                if not left:
                    break
                process.change(f"shutdown sessions server {process.target}", until)
                left = self._settled(process, until)
            if left:
                raise Trouble(f"{left} of {first} requests still run after their sessions were shut", late=until.passed)
            note = f"{process.target} is in maintenance, {first} requests were ended"
            return Part(process.socket, Ending.DONE, note, {"before": _word(before), "requests": first})

        return self._all(work, deadline)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """REFUSED where the weight is too small to be divided, or the balancing algorithm is static."""

        def work(process: HaproxyProcess, until: Deadline) -> Part:
            before = process.state(until)
            full, wanted = self._weights(before, percent)
            if percent > 0 and (not wanted or (wanted == full and percent < 100)):
                advice = f"give the servers of {process.backend} weights of about 100 in HAProxy's configuration"
                raise Trouble(f"{percent:g} % of its full weight {full} is no whole weight; {advice}", refused=True)
            self._weigh(process, before, wanted, percent, until)
            note = f"{process.target} has weight {wanted} of {full}"
            return Part(process.socket, Ending.DONE, note, {"before": before.weight, "weight": wanted, "full": full})

        return self._all(work, deadline)

    def restore(self, deadline: Deadline) -> Answer:
        """Full weight first, then ready. PARTIAL where a health check still holds it down at the deadline."""

        def work(process: HaproxyProcess, until: Deadline) -> Part:
            before = process.state(until)
            full, _ = self._weights(before, 100.0)
            self._weigh(process, before, full, 100.0, until)
            if before.maint or before.drain:
                process.change(f"set server {process.target} state ready", until)
                process.until(lambda state: not (state.maint or state.drain), "ready", until)
            note = f"{process.target} is ready at its full weight {full}"
            data = {"before": _word(before), "weight": full}
            while not process.state(until).up:
                if until.remaining() <= 2 * POLL_SECONDS:
                    status = process.stat(until).status
                    return Part(process.socket, Ending.PARTIAL, f"{note}, and its health check says {status}", data)
                process.pause(POLL_SECONDS)
            return Part(process.socket, Ending.DONE, note, data)

        return self._all(work, deadline)

    def would(self, verb: str, *, percent: float | None = None) -> tuple[str, ...]:
        """The commands of `verb` (a Verb), by socket."""
        word = str(getattr(verb, "value", verb))
        commands = {
            "stop_new": [f"set server {self._target} state drain"],
            "cut": [f"set server {self._target} state maint", f"shutdown sessions server {self._target}"],
            "set_weight": [self._weight_command(100.0 if percent is None else percent)],
            "restore": [self._weight_command(100.0), f"set server {self._target} state ready"],
        }.get(word, [])
        return tuple(f"{one.socket}: {command}" for one in self._processes for command in commands)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _see(self, process: HaproxyProcess, until: Deadline) -> Part:
        try:
            found = {"state": process.state(until), "stat": process.stat(until)}
        except NoServer as error:
            return Part(process.socket, Ending.DONE, str(error))
        return Part(process.socket, Ending.DONE, "", found)

    def _all(self, work: Work, deadline: Deadline) -> Answer:
        return answer_of(at_once(self._processes, work, deadline))

    def _settled(self, process: HaproxyProcess, until: Deadline) -> int:
        """How many run a moment after their sessions were shut: they end once their own threads have come round."""
        left = 0
        for _ in range(20):
            left = process.stat(until).running
            if not left:
                break
            process.pause(POLL_SECONDS)
        return left

    def _weights(self, state: ServerState, percent: float) -> tuple[int, int]:
        """(its full weight, so many percent of it), as HAProxy reckons: a whole percentage, rounded down."""
        if self._full is not None:
            return self._full, round(self._full * percent / 100)
        return state.initial, state.initial * _whole(percent) // 100

    def _weight_command(self, percent: float) -> str:
        if self._full is not None:
            return f"set server {self._target} weight {round(self._full * percent / 100)}"
        return f"set server {self._target} weight {_whole(percent)}%"

    def _weigh(
        self, process: HaproxyProcess, before: ServerState, wanted: int, percent: float, until: Deadline
    ) -> None:
        if before.weight != wanted:
            process.change(self._weight_command(percent), until)
            process.until(lambda state: state.weight == wanted, f"weight {wanted}", until)

    def _percent(self, state: ServerState) -> float | None:
        full = self._full if self._full is not None else state.initial
        return 100.0 * state.weight / full if full else None


def _whole(percent: float) -> int:
    """HAProxy takes whole percentages only."""
    return max(round(percent), 1) if percent > 0 else 0


def _word(state: ServerState) -> str:
    return "maint" if state.maint else "drain" if state.drain else "ready"
