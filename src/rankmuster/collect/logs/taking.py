"""Takes logs into the sink: the end of each first, more of each as long as there is time and room.

Scrubbing secrets out of text costs about a third of a second a megabyte, so the ends of all logs are safe before any is
taken at length. A file that does not let itself be read (a dead NFS server) costs its own patience and no more.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rankmuster.collect.bounded import each
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs import tail
from rankmuster.collect.logs.sources import Source, bundle_path, identity, opened
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink

SHORT = 256 << 10
"""Bytes of the first pass: some 2,000 lines, which hold what was said around a fault."""
MAX_TOTAL = 64 << 20
"""Bytes of all logs of one collector together."""
MAX_FILES = 512
"""Logs of one collector: several a rank of the largest node."""
PATIENCE = 2.0
"""Seconds for one read of a log, scrubbing not counted; disks that are alive take milliseconds."""
MARGIN = 0.3
"""Seconds before the deadline at which no further log is begun: a short one takes about a tenth."""
WAIT_SHARE = 0.5
"""Of the time that is left after the ends, the part that may be waited before more is taken."""
_TELLING = 64 << 10
"""Bytes below which the time that a log took says nothing of how long more of it would take."""
HEAD_SHARE = 8
"""Of a log whose start is wanted, one part in so many is for it: NCCL's init of a process takes some 100 KiB."""


@dataclass
class Taking:
    """What has been taken so far.

    `cut`: logs of which only a part was taken. `empty`: logs without a byte. `trouble`: what could not be read, one
    phrase each.
    """

    taken: dict[str, None] = field(default_factory=dict)
    cut: int = 0
    bytes: int = 0
    denied: int = 0
    empty: int = 0
    trouble: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Known:
    source: Source
    key: tuple[int, int] | None
    error: OSError | None = None


def take(
    sources: Sequence[Source],
    folder: str,
    sink: Sink,
    deadline: Deadline,
    *,
    now: Callable[[], float],
    host: str | None,
    max_bytes: int,
    with_head: bool = False,
    prefix_rank: bool = True,
    between: Callable[[Deadline], object] = lambda _: None,
) -> Taking:
    """Each log once, however many ways lead to it. `max_bytes`: of each. Lets SinkClosed and SinkFull through.

    `between`: waited for before anything is taken at length, at most so long: scrubbing takes the processor (and the
    interpreter's lock) from whoever finds out meanwhile whether the instance may be asked for anything.
    """
    state = Taking()
    if deadline.before(MARGIN).passed:
        state.trouble.append(f"{len(sources)} log(s), for which there was no time")
        return state
    chosen = _distinct(sources[: MAX_FILES * 2], state, deadline)[:MAX_FILES]
    if not chosen:
        return state
    longest = min(max_bytes, max(MAX_TOTAL // len(chosen), 1))
    passes = (SHORT, longest) if longest > SHORT else (longest,)
    paths: dict[int, str] = {}
    lengths: dict[int, int] = {}
    done: set[int] = set()  # whole in the bundle, or hopeless
    rate = 0.0  # seconds a byte, of the slowest log so far
    for turn, limit in enumerate(passes):
        if turn and len(done) < len(chosen):
            between(deadline.within(deadline.remaining() * WAIT_SHARE))
        for number, source in enumerate(chosen):
            left = deadline.before(MARGIN).remaining()
            if number in done or left <= 0 or rate * limit > left:
                continue
            begun = deadline.clock()
            found = _read(source, limit, state, deadline, with_head=with_head)
            if found is None or not found.data:
                done.add(number)
                state.empty += found is not None
                continue
            earlier = paths.get(number)
            if earlier is not None and len(found.data) <= lengths[number]:
                continue  # truncated since: what was taken first is more
            lengths[number] = len(found.data)
            wanted = earlier or bundle_path(folder, source.rank if prefix_rank else None, source.named)
            replaced = earlier is not None
            paths[number] = sink.put(
                wanted, found.data, look_time=now(), rank=source.rank, host=host, text=True, replace=replaced
            )
            done.update([] if found.cut else [number])
            rate = max(rate, (deadline.clock() - begun) / max(len(found.data), _TELLING))
            state.taken[paths[number]] = None
    state.cut = len(paths.keys() - done)
    state.bytes = sum(piece.size for piece in sink.pieces)
    missed = len(chosen) - len(paths.keys() | done)
    if missed > 0:
        state.trouble.append(f"{missed} more log(s) for which there was no time")
    return state


def _distinct(sources: Sequence[Source], state: Taking, deadline: Deadline) -> list[Source]:
    """One source a file. A file that several ranks write to is no one rank's."""

    def look(source: Source) -> _Known:
        try:
            return _Known(source, identity(source))
        except OSError as error:
            return _Known(source, None, error)

    done = each(list(sources), look, patience=PATIENCE, total=deadline.remaining())
    for source in done.stuck:
        state.trouble.append(f"{source.said} did not answer within {PATIENCE:g} s (a file server that is gone?)")
    by_key: dict[tuple[int, int], Source] = {}
    for source, known in done.results:
        if known.key is None:
            _complain(source, known.error, state)
            continue
        earlier = by_key.get(known.key)
        if earlier is None:
            by_key[known.key] = source
        elif earlier.rank != source.rank:
            by_key[known.key] = replace(earlier, rank=None)
    return list(by_key.values())


def _complain(source: Source, error: OSError | None, state: Taking) -> None:
    if error is None or error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
        return  # it was guessed at, or has gone
    if error.errno in (errno.EACCES, errno.EPERM):
        state.denied += 1
    state.trouble.append(f"{source.said}: {error.strerror or error}")


def _read(source: Source, limit: int, state: Taking, deadline: Deadline, *, with_head: bool) -> tail.Tail | None:
    head = limit // HEAD_SHARE if with_head else 0

    def work(one: Source) -> tail.Tail | OSError:
        try:
            with opened(one) as descriptor:
                if one.packed:
                    return tail.inflate(descriptor, limit, head=head)
                return tail.read(descriptor, limit, head=head, begin=one.begin)
        except OSError as error:
            return error

    done = each([source], work, patience=PATIENCE, total=deadline.remaining())
    if not done.results:
        state.trouble.append(f"{source.said} did not let itself be read within {PATIENCE:g} s")
        return None
    result = done.results[0][1]
    if isinstance(result, OSError):
        _complain(source, result, state)
        return None
    return result


def outcome(state: Taking, what: str, nothing: str) -> Outcome:
    """In a sentence. `what`: the logs' kind; `nothing`: why there may be none."""
    told = list(dict.fromkeys(state.trouble))  # ranks that name one file have one trouble with it
    trouble = "; ".join(told[:6]) + (f"; and {len(told) - 6} more" if len(told) > 6 else "")
    if not state.taken:
        if state.denied:
            return Outcome(Ending.DENIED, f"no {what} may be read: {trouble}; run as the instance's user or as root")
        if state.trouble:
            return Outcome(Ending.FAILED, f"no {what} could be read: {trouble}")
        if state.empty:
            return Outcome(Ending.NOTHING, f"{state.empty} {what} are there, and empty")
        return Outcome(Ending.NOTHING, nothing)
    note = f"{len(state.taken)} {what} with {_size(state.bytes)}"
    if state.cut:
        note += f"; of {state.cut} only the end, for their size"
    return Outcome(Ending.PARTIAL if state.trouble else Ending.DONE, note + (f"; not: {trouble}" if trouble else ""))


def _size(count: int) -> str:
    return f"{count >> 10:,} KiB" if count >= 10 << 10 else f"{count:,} bytes"
