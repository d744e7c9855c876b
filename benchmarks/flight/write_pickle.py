"""A rank's dump as torch writes it to a file, byte for byte: keys in its order, memo by its rules (pickler.py).

An entry is cut at its eleven values that change. Once all its texts are in the memo, what lies between them is the same
bytes in every entry of a kind, and writing an entry is one join.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from benchmarks.flight.calls import Shapes
from benchmarks.flight.entry import EntryKind
from benchmarks.flight.pickler import (
    EMPTY_DICT,
    EMPTY_LIST,
    END_DICT,
    END_LIST,
    FALSE,
    LONG,
    NONE,
    PROTO,
    STOP,
    TRUE,
    TUPLE2,
    Memo,
    floating,
    integer,
)
from benchmarks.flight.recorder import Held
from benchmarks.flight.stacks import Frame
from benchmarks.flight.write_json import STATES, STATUS_KEYS
from numpy.typing import NDArray

Pieces = tuple[bytes, ...]


def write(
    version: str,
    config: dict[str, dict[str, str]],
    lib: tuple[str, str] | None,
    status: dict[str, tuple[int, int, int]],
    kinds: list[EntryKind],
    held: Held,
) -> bytes:
    """The bytes of one dump."""
    writer = _Writer(int(version.split(".")[1]), kinds)
    text = writer.memo.text
    out = [PROTO, EMPTY_DICT, text("version"), text(version), text("pg_config"), EMPTY_DICT]
    for key, row in config.items():
        out += [text(key), EMPTY_DICT]
        for name, value in row.items():
            out += [text(name), text(value)]
        out.append(END_DICT)
    out.append(END_DICT)
    if lib is not None:
        out += [text(lib[0]), text(lib[1])]
    if writer.minor >= 4:
        out += [text("pg_status"), EMPTY_DICT]
        for key, numbers in status.items():
            out += [text(key), EMPTY_DICT]
            for name, number in zip(STATUS_KEYS, numbers, strict=True):
                out += [text(name), integer(number)]
            out.append(END_DICT)
        out.append(END_DICT)
    out += [text("entries"), EMPTY_LIST]
    writer.entries(held, out)
    out += [END_LIST, END_DICT, writer.memo.share("the whole"), STOP]
    return b"".join(out)


class _Writer:
    def __init__(self, minor: int, kinds: list[EntryKind]) -> None:
        self.minor, self.kinds = minor, kinds
        self.memo = Memo()
        self.uses: Counter[Frame] = Counter()
        self.ready: dict[tuple[int, bool], Pieces] = {}

    def entries(self, held: Held, out: list[bytes]) -> None:
        timed = ~np.isnan(held.duration_ms)
        for number, times in zip(*np.unique(held.kind, return_counts=True), strict=True):
            for frame in self.kinds[int(number)].frames:
                self.uses[frame] += int(times)
        columns = zip(
            held.kind.tolist(),
            timed.tolist(),
            map(integer, held.record_id.tolist()),
            map(integer, held.seq.tolist()),
            map(integer, held.p2p.tolist()),
            map(integer, held.op.tolist()),
            _longs(held.created_ns),
            _floats(held.duration_ms),
            held.state.tolist(),
            _longs(held.started_ns),
            _longs(held.completed_ns),
            np.where(held.retired, TRUE, FALSE).tolist(),
            strict=True,
        )
        ready, memo, text = self.ready, self.memo, self.memo.text
        fetched = [text(state) if memo.knows(state) else None for state in STATES]
        append = out.append
        join = b"".join
        for kind, has_time, record, seq, p2p, op, created, duration, state, started, completed, retired in columns:
            pieces = ready.get((kind, has_time))
            name = fetched[state]
            if pieces is None or name is None:
                pieces, name = self._first(kind, has_time, state)
                fetched = [text(known) if memo.knows(known) else None for known in STATES]
            append(
                join(
                    (
                        pieces[0],
                        record,
                        pieces[1],
                        seq,
                        pieces[2],
                        p2p,
                        pieces[3],
                        op,
                        pieces[4],
                        created,
                        pieces[5],
                        duration,
                        pieces[6],
                        name,
                        pieces[7],
                        started,
                        pieces[8],
                        completed,
                        pieces[9],
                        retired,
                        pieces[10],
                    )
                )
            )

    def _first(self, number: int, has_time: bool, state: int) -> tuple[Pieces, bytes]:
        """The pieces of an entry some text of which may be new, and its state; kept once nothing of it is new.

        Everything is asked of the memo in the order of the file, for the memo counts as it is written.
        """
        kind, text, before = self.kinds[number], self.memo.text, self.memo.size
        pieces = []
        # A dump without stacks (a second attempt, or by request) has no such key at all.
        stack = [text("frames"), EMPTY_LIST, *map(self._frame, kind.frames), END_LIST] if kind.frames else []
        pieces.append(b"".join([EMPTY_DICT, *stack, text("record_id")]))
        place = [text("pg_id"), integer(kind.pg_id), text("process_group")]
        place += [text(kind.group.name), text(kind.group.desc), TUPLE2]
        if self.minor >= 9:
            place += [text("thread_name"), text(kind.thread[0]), text("thread_id"), text(kind.thread[1])]
        pieces.append(b"".join([*place, text("collective_seq_id")]))
        pieces.append(text("p2p_seq_id"))
        pieces.append(text("op_id"))
        pieces.append(text("profiling_name") + text(kind.profiling_name) + text("time_created_ns"))
        pieces.append(text("duration_ms") if has_time else b"")
        tensors = [text("input_sizes"), _shapes(kind.ins), text("input_dtypes"), self._texts(kind.in_dtypes)]
        tensors += [text("output_sizes"), _shapes(kind.outs), text("output_dtypes"), self._texts(kind.out_dtypes)]
        pieces.append(b"".join([*tensors, text("state")]))
        name = text(STATES[state])
        pieces.append(text("time_discovered_started_ns"))
        pieces.append(text("time_discovered_completed_ns"))
        pieces.append(text("retired"))
        end = [text("timeout_ms"), integer(kind.timeout_ms)] if self.minor >= 4 else []
        pieces.append(b"".join([*end, text("is_p2p"), TRUE if kind.is_p2p else FALSE, END_DICT]))
        if self.memo.size == before:
            self.ready[number, has_time] = tuple(pieces)
        return tuple(pieces), name

    def _texts(self, values: tuple[str, ...]) -> bytes:
        return EMPTY_LIST + b"".join(map(self.memo.text, values)) + END_LIST

    def _frame(self, frame: Frame) -> bytes:
        known = self.memo.shared(frame)
        if known is not None:
            return known
        text = self.memo.text
        written = b"".join(
            (
                EMPTY_DICT,
                text("name"),
                text(frame.name),
                text("filename"),
                text(frame.filename),
                text("line"),
                integer(frame.line),
                END_DICT,
            )
        )
        # What nothing else points at is not memoised.
        return written + self.memo.share(frame) if self.uses[frame] > 1 else written


def _longs(values: NDArray[np.int64]) -> list[bytes]:
    """Nanosecond stamps; 0 is None."""
    raw = values.astype("<i8").tobytes()
    return [LONG + raw[at : at + 8] if value else NONE for at, value in zip(range(0, len(raw), 8), values, strict=True)]


def _floats(values: NDArray[np.float64]) -> list[bytes]:
    return [b"" if value != value else floating(value) for value in values.tolist()]


def _shapes(shapes: Shapes) -> bytes:
    lists = (EMPTY_LIST + b"".join(map(integer, shape)) + END_LIST for shape in shapes)
    return EMPTY_LIST + b"".join(lists) + END_LIST
