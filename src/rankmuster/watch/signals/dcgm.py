"""GPUs through the page of a DCGM exporter, where the watch may not touch them itself.

The exporter collects at its own interval and shows the same values in between: a page that has not changed is no new
sample. That it has changed shows in what never stands still, the energy used, or the power drawn.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.logs.http_get import Hold, Unanswered, pour
from rankmuster.collect.logs.metrics_page import problem, shown
from rankmuster.model.plane import Plane
from rankmuster.watch.signals import dcgm_page
from rankmuster.watch.signals.dcgm_page import Filter, Page, PageGpu, Parser
from rankmuster.watch.signals.gpu_rates import Rates
from rankmuster.watch.signals.gpu_rows import OF_POD, one_sample
from rankmuster.watch.signals.gpu_xid import Xids
from rankmuster.watch.signals.signal import Declined, Failed, Heard, Said

PAGE_SECONDS = 2.0
"""For one page: the exporter renders what it has in milliseconds."""

SLOW_PERIODS = 1.8
"""Periods of the watch from which on the exporter's interval is too long: two looks need a sample each."""

STUCK_SECONDS = 120.0
"""Without any change after which the exporter hangs (dcgm-exporter issue 164): four of its ordinary intervals."""

GAPS = 3
"""Intervals between changes from which the exporter's own is known."""


class DcgmSignal:
    """Plane hardware: one piece of `GpuTrack` per GPU for each time the exporter collected; without pids.

    `url`: of the page, usually http://HOST:9400/metrics. An Xid is told when the last one of a GPU changes.
    """

    def __init__(
        self,
        url: str,
        host: str,
        *,
        period: float = 5.0,
        xids: bool = True,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._said = shown(url)
        self._host = host
        self._period = period
        self._with_xids = xids
        self._clock = clock
        self._now = now
        self._parser = Parser()
        self._rates: dict[int, tuple[str | None, Rates]] = {}
        self._xids = Xids("dcgm-xid-errors", host)
        self._last: dict[int, int | None] | None = None  # Xid by GPU on the page before; None: no page before
        self._beat: frozenset[tuple[int, str, float]] | None = None
        self._changed: float | None = None
        self._gaps: deque[float] = deque(maxlen=GAPS)
        self._declined: str | None = None
        self._seen: set[int] = set()
        self._hold: Hold | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.pods: Mapping[str, frozenset[str]] = {}
        self.processes: Mapping[int, tuple[Gpu, ...]] = {}  # of a pod by its own numbers, where the page says

    @property
    def name(self) -> str:
        return "dcgm"

    @property
    def plane(self) -> Plane:
        return Plane.HARDWARE

    @property
    def period(self) -> float:
        return self._period

    @property
    def blind_to(self) -> str:
        return (
            "whose processes are on a GPU, partitions of GPUs (MIG), what happens between two collections of the "
            "exporter, and traffic below 1 MiB/s where the page has NVLink's total only"
        )

    @property
    def interval(self) -> float | None:
        """Seconds between two collections of the exporter as seen from here, None while unknown."""
        return sorted(self._gaps)[len(self._gaps) // 2] if len(self._gaps) == GAPS else None

    def poll(self, deadline: Deadline) -> Iterator[Said]:
        """A sample of each GPU where the exporter has collected since the last poll."""
        with self._lock:
            if self._closed:
                return
            hold = self._hold = Hold()
        lines = Filter()
        try:
            answer = pour(self._url, min(PAGE_SECONDS, deadline.remaining()), lines.take, hold)
        except Unanswered as error:
            yield self._fail(f"the DCGM exporter's page {self._said} was not to be had: {error}")
            return
        lines.end()
        wrong = problem(answer) if answer.status != 404 else "status 404"
        if wrong is None and not lines.series:
            wrong = "no series of DCGM on it"
        if wrong is not None:
            yield self._fail(f"{self._said} is no page of a DCGM exporter: {wrong}")
            return
        yield from self._page(self._parser.parse(lines.kept))

    def close(self) -> None:
        """Ends a poll that goes on, and every later one."""
        with self._lock:
            self._closed = True
            hold = self._hold
        if hold is not None:
            hold.drop()

    def _page(self, page: Page) -> Iterator[Said]:
        now, unix = self._clock(), self._now()
        if not page.gpus:
            yield from self._decline(now, _without(page))
            return
        self._rates = {index: kept for index, kept in self._rates.items() if index in page.gpus}
        yield from self._errors(page, now, unix)
        if not self._fresh(page, now):
            stood = now - (self._changed if self._changed is not None else now)
            if stood > max(STUCK_SECONDS, 4 * self._period):
                yield Failed(
                    now,
                    Plane.HARDWARE,
                    f"the values on {self._said} have not changed for {stood:.0f} s: the exporter serves old ones "
                    "(it, or DCGM behind it, hangs), or its page has neither energy nor power",
                )
            return
        samples = [self._sample(gpu, now, unix) for gpu in page.gpus.values()]
        self.pods = {gpu.labels.uuid or str(index): frozenset(gpu.pods) for index, gpu in page.gpus.items() if gpu.pods}
        self.processes = _processes(page)
        yield from self._decline(now, self._too_little(page))
        self._seen |= page.gpus.keys()
        gone = sorted(self._seen - page.gpus.keys())
        if gone:
            told = ", ".join(map(str, gone[:8]))
            yield Failed(now, Plane.HARDWARE, f"GPU {told} is no longer on {self._said}: DCGM cannot read it any more")
        yield from samples

    def _sample(self, gpu: PageGpu, now: float, unix: float) -> Said:
        labels = gpu.labels
        uuid, rates = self._rates.get(labels.gpu, (None, None))
        if rates is None or uuid != labels.uuid:
            rates = Rates(believed=labels.pids is not None)
        self._rates[labels.gpu] = labels.uuid, rates
        track = one_sample(
            host=self._host,
            gpu=labels.gpu,
            uuid=labels.uuid,
            bus=labels.bus,
            time=unix,
            pids=labels.pids,
            # The rate of a clock that never jumps: `unix` may be set between two pages.
            columns=rates.columns(now, gpu.values),
            source="dcgm-exporter" if labels.pids is None else OF_POD,
        )
        return Heard(now, unix, track, Plane.HARDWARE)

    def _fresh(self, page: Page, now: float) -> bool:
        """Whether the exporter has collected since the page before."""
        beat = _beat(page)
        if beat == self._beat:
            return False
        if self._beat is not None and self._changed is not None:
            self._gaps.append(now - self._changed)
        self._beat, self._changed = beat, now
        return True

    def _errors(self, page: Page, now: float, unix: float) -> Iterator[Said]:
        """Xids that are not those of the page before; the first page's happened at an unknown time."""
        last = {index: _code(gpu) for index, gpu in page.gpus.items()}
        before, self._last = self._last, last
        if before is None or not self._with_xids:
            return
        for index, code in last.items():
            bus = page.gpus[index].labels.bus
            if code and index in before and before[index] != code and bus is not None:
                xid = self._xids.told(code, bus, unix, "told by DCGM")
                if xid is not None:
                    yield Heard(now, unix, xid, Plane.KERNEL)

    def _too_little(self, page: Page) -> str | None:
        """Why what the page has cannot show a stop in time, None where it can."""
        if not any(dcgm_page.UTIL in gpu.values or dcgm_page.ENGINE in gpu.values for gpu in page.gpus.values()):
            return f"{self._said} has neither {dcgm_page.UTIL} nor {dcgm_page.ENGINE}: nobody sees who waits"
        if not any(name in gpu.values for gpu in page.gpus.values() for name in _LINKS):
            return (
                f"{self._said} says nothing of bytes between GPUs: computing and waiting look the same; add "
                f"{dcgm_page.NVLINK_TX} and {dcgm_page.NVLINK_RX} to the exporter's counters file (-f)"
            )
        if not any(rates.sees_links for _, rates in self._rates.values()):
            return (
                f"no link on {self._said} has carried a byte since the watch began: nothing runs, or it does not count "
                "there (DCGM issue 149); until one moves nobody sees who waits"
            )
        interval = self.interval
        if interval is not None and interval > SLOW_PERIODS * self._period:
            return (
                f"the DCGM exporter collects about every {interval:.0f} s, which shows a stop after "
                f"{2 * interval:.0f} s at the earliest; set its -c or DCGM_EXPORTER_INTERVAL to "
                f"{1000 * self._period:.0f} (milliseconds) or less"
            )
        return None

    def _decline(self, now: float, reason: str | None) -> Iterator[Said]:
        """Says it where it is another than was said last."""
        told = None if reason is None else _without_digits(reason)
        if told == self._declined:
            return
        self._declined = told
        if reason is not None:
            yield Declined(now, Plane.HARDWARE, reason)

    def _fail(self, reason: str) -> Failed:
        # An exporter that was started anew begins its Xids anew.
        self._last = None
        return Failed(self._clock(), Plane.HARDWARE, reason)


_LINKS = (dcgm_page.NVLINK_TX, dcgm_page.NVLINK_RX, dcgm_page.NVLINK, dcgm_page.PCIE_TX, dcgm_page.PCIE_RX)


def _beat(page: Page) -> frozenset[tuple[int, str, float]]:
    """What changes with each collection: the energy where it is told, else everything."""
    rows = [(index, name, value) for index, gpu in page.gpus.items() for name, value in gpu.values.items()]
    energy = [row for row in rows if row[1] == dcgm_page.ENERGY]
    return frozenset(energy or [row for row in rows if row[1] != dcgm_page.XID])


def _processes(page: Page) -> dict[int, tuple[Gpu, ...]]:
    """Whose GPU is which: one that a process has for itself counts before those that it shares (a rank that looks at
    all GPUs leaves a little on the first)."""
    on: dict[int, list[PageGpu]] = {}
    for gpu in page.gpus.values():
        for pid in gpu.labels.pids or ():
            on.setdefault(pid, []).append(gpu)
    found = {}
    for pid, gpus in on.items():
        own = [gpu for gpu in gpus if gpu.labels.pids == (pid,)] or gpus
        found[pid] = tuple(Gpu(gpu.labels.gpu, gpu.labels.uuid) for gpu in own)
    return found


def _code(gpu: PageGpu) -> int | None:
    value = gpu.values.get(dcgm_page.XID)
    return int(value) if value is not None else None


def _without(page: Page) -> str:
    if page.mig:
        return (
            f"all GPUs on the DCGM exporter's page are partitioned (MIG): {len(page.mig)} of them; links of partitions "
            "are not counted, so that nobody sees whether bytes move"
        )
    return "the DCGM exporter's page has no GPU with any of the series that tell whether it works"


def _without_digits(text: str) -> str:
    return "".join(letter for letter in text if not letter.isdecimal())
