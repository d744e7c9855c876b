"""A short digest of a run with its results, kept beside it, so that a decision can tell at once whether it is as it was
stored: the run's record says the same, and costs ten times as much to make again (`store/verify.py` does that).

Over what a decision reads, by content and not by row numbers. It tells damage and careless changes; it is no signature.
What a version of the tables has computed, later ones compare with: the form never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.benchmark import HistoryRun
from rankmuster.store.plain import VALUE_NUMBERS, CellKey, cell_key, numbers_of

DIGEST_BYTES = 16

Head = tuple[str, str, str, str, str, float]
"""Record, class hash, node hash, profile, state, start (unix seconds)."""


@cache
def cell_mark(cell: CellKey) -> int:
    """A number of 64 bits for a cell, the same in every database."""
    operation, size, dtype, in_place, graph = cell
    text = f"{operation}\n{size}\n{dtype}\n{int(in_place)}\n{int(graph)}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()[:8], "little")


def run_digest(head: Head, marks: NDArray[np.uint64], numbers: NDArray[np.float64]) -> bytes:
    """`marks`: of the results' cells by position, shape (results,); `numbers`: shape (results, 7), the columns of
    `plain.VALUE_NUMBERS`, NaN where there is none."""
    *words, started = head
    digest = hashlib.blake2b("\n".join((*words, float(started).hex())).encode(), digest_size=DIGEST_BYTES)
    digest.update(np.asarray(marks, dtype="<u8").tobytes())
    # a zero with a sign and NaNs of other bits are the same in a database
    plain = np.where(np.isnan(numbers), np.nan, numbers) + 0.0
    digest.update(np.asarray(plain, dtype="<f8").tobytes())
    return digest.digest()


def columns(
    cells: Sequence[CellKey], numbers: Sequence[Sequence[float | None]]
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """(marks, numbers) of results as `run_digest` takes them. Raises ValueError, TypeError for what is no number."""
    marks = np.array([cell_mark(cell) for cell in cells], dtype=np.uint64)
    return marks, np.array(numbers, dtype=np.float64).reshape(len(cells), len(VALUE_NUMBERS))


def digest_of(run: HistoryRun) -> bytes:
    """Of a run with its results. Raises ValueError, TypeError for what is no number."""
    head = (run.record, run.class_hash, run.node_hash, run.profile, run.state.value, run.started_at)
    return run_digest(
        head, *columns([cell_key(one.cell) for one in run.values], [numbers_of(one) for one in run.values])
    )
