"""From the lines of a log to the few that matter, each with its origin: rank, process, time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.log_prefix import Prefix, peel, whole
from rankmuster.evidence.names import rank_of
from rankmuster.model.frameworklog import LineOrigin

LABEL_SAMPLE = 40
"""Lines looked at to tell Slurm's `--label` output (`3: ...` on every line) from a line that begins with a number."""
_LABEL = re.compile(r" {0,5}(\d{1,6}): ?")


class Origins:
    """Turns lines of one blob into origins: content first, then the file's name."""

    def __init__(self, blob: Blob) -> None:
        self.source = blob.path
        self.path_rank = rank_of(blob.path)
        self._labelled = _is_labelled(blob.data)

    def of(self, number: int, line: str) -> tuple[LineOrigin, Prefix]:
        """The origin of a line, and its own prefixes with the rest of the message."""
        label = _LABEL.match(line) if self._labelled else None
        prefix = peel(line[label.end() :] if label else line)
        if prefix.rank is None and label is not None:
            prefix = replace(prefix, rank=whole(label.group(1)))
        rank = prefix.rank if prefix.rank is not None else self.path_rank
        if rank is None and (prefix.default_group or prefix.group is None):
            rank = prefix.group_rank
        origin = LineOrigin(
            self.source, number, rank, prefix.pid, prefix.worker, prefix.stamp, prefix.group_rank, prefix.host
        )
        return origin, prefix


def _is_labelled(data: bytes) -> bool:
    sample = [line for line in text.head(data).split("\n")[:LABEL_SAMPLE] if line.strip()]
    return len(sample) > 1 and all(_LABEL.match(line) for line in sample[:-1])


def marked(blob: Blob, marks: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Lines that hold one of `marks`; none of the lines is touched if the blob holds no mark at all."""
    data = text.seen(blob.data)
    present = [mark for mark in marks if mark.encode() in data]
    if not present:
        return
    for number, line in text.lines(blob.data):
        for mark in present:
            if mark in line:
                yield number, line
                break


def holds(blob: Blob, marks: tuple[str, ...]) -> bool:
    """For recognisers: whether a text holds one of `marks`."""
    if not text.is_text(blob.data):
        return False
    data = text.seen(blob.data)
    return any(mark.encode() in data for mark in marks)
