"""RAS, polled about once a minute where its release may be polled at all: counts of operations, and who answers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.attempts import Met
from rankmuster.collect.ras.client import Ended
from rankmuster.collect.ras.namespace import NamespaceClosed
from rankmuster.collect.ras.policy import Form
from rankmuster.collect.ras.poll import LEAST_SECONDS, Poll, Result, ask_status, told
from rankmuster.collect.ras.probe import Abilities
from rankmuster.evidence import ras_json, ras_text
from rankmuster.evidence.blob import Blob
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import unix
from rankmuster.watch.signals.ras_access import Barred, RasAccess
from rankmuster.watch.signals.ras_source import RasSource
from rankmuster.watch.signals.signal import Heard, Said

PATIENCE_SECONDS = 15.0
"""A report waits 5 s for a member that does not answer and 5 s on top (src/ras/ras_internal.h); finding a process that
answers takes up to 5 s before that."""

LEAST_PERIOD_SECONDS = 10.0
"""Between two polls: watchers should leave 10 s and more (NCCL's RAS makes every process of the job answer)."""

MAX_REPLY = 2 << 20
"""Bytes of a report that a watch reads: some 600 a rank and communicator, so 3 500 of those. Parsed they are 30 MB."""


class RasSignal(RasSource):
    """One instance's polls, `period` seconds apart, at least LEAST_PERIOD_SECONDS."""

    name = "ras"
    patience = PATIENCE_SECONDS
    blind_to = (
        "operations that finished or not (counts are launches by the host), sends, receives and all-to-all, replayed "
        "CUDA graphs, and everything before init"
    )

    def __init__(self, access: RasAccess, period: float) -> None:
        self._period = max(period, LEAST_PERIOD_SECONDS)
        super().__init__(access, self._period)
        self._closed = False

    @property
    def period(self) -> float:
        """Seconds; short while the instance may not be asked yet, which costs nothing."""
        return self._period if self.access.ready else LEAST_PERIOD_SECONDS

    def poll(self, deadline: Deadline) -> Iterable[Said]:
        """One report, or why there is none."""
        until = deadline.within(self.patience)
        self._begun_anew()
        if self._closed or not self._may_ask():
            return ()
        try:
            return tuple(self._ask(until))
        except (Barred, NamespaceClosed) as refused:
            return self._decline(str(refused))

    def close(self) -> None:
        """No further poll; one that runs ends by its deadline."""
        self._closed = True

    def _ask(self, until: Deadline) -> Iterable[Said]:
        way = self.access.way(until)
        if until.remaining() < LEAST_SECONDS:
            return self._fail(f"not asked: of its time {until.remaining():.1f} s were left, too little for a report")
        refused = ""

        def allows(abilities: Abilities) -> bool:
            nonlocal refused
            permission = self.access.permits(way, abilities)
            refused = "" if permission.granted else permission.reason
            return permission.granted

        poll = ask_status(
            self.access.service(way), until, pids=way.pids, allows=allows, factor=way.factor, max_bytes=MAX_REPLY
        )
        if poll.result is Result.UNSAFE:
            # A service that is not to be asked is not probed every minute either.
            self._pace.failed(self.access.clock())
            return self._decline(refused)
        where = way.place.where
        if poll.result is Result.ANOTHERS:
            return self._fail(
                f"at {where} a different job answered: none of the processes it named is this instance's; give each "
                "instance a NCCL_RAS_ADDR of its own"
            )
        if poll.result is not Result.REPORT or poll.reply is None:
            return self._fail(_unanswered(where, poll))
        if poll.reply.ended is Ended.SIZE:
            return self._fail(f"the report from {where} is longer than the {MAX_REPLY} bytes that a watch reads")
        return self._heard(poll)

    def _heard(self, poll: Poll) -> tuple[Said, ...]:
        assert poll.reply is not None
        now = self.access.clock()
        began = time.thread_time()
        read = read_reply(poll.reply.data, poll.form, poll.at, self.access.host)
        cost = time.thread_time() - began
        if read is None:
            return self._fail("a report came that cannot be read")
        self._declined = None
        if poll.whole and not read.timeouts:
            self._pace.went_well(now, cost)
        else:
            self._pace.failed(now)  # a member that does not answer makes each poll wait: the RAS threads wait with it
        return (Heard(now - poll.reply.seconds, poll.at, read),)


def read_reply(data: bytes, form: Form, at: float, host: str) -> RasPoll | None:
    """The report as the bundle's readers understand it, None for what is none. `at`: unix seconds when it was asked."""
    ending = "json" if form is Form.JSON else "txt"
    blob = Blob(f"ras/{at:.3f}-node.{ending}", data)
    for reader in (ras_json.READER, ras_text.READER):
        if reader.recognises(blob):
            for found in reader.read(blob).observations:
                if isinstance(found, RasPoll):
                    return replace(found, source=f"ras/{at:.3f}-{host}.{ending}", time=unix(at), node=host)
    return None


def _unanswered(where: str, poll: Poll) -> str:
    met = {one.met for one in poll.attempts}
    why = ""
    if Met.REFUSED in met and met <= {Met.REFUSED, Met.UNREACHABLE}:
        why = "; nobody listens there: no process has initialised NCCL, or all have ended, or another user has the port"
    elif Met.SILENT in met:
        why = "; a process of this node has a RAS thread that does not run (stopped, or frozen)"
    return f"RAS at {where} gave no report: {told(poll)}{why}"
