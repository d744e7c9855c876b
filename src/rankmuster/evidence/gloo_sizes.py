"""gloo's assertion on the size of a message (`gloo/transport/tcp/pair.cc` of torch 2.13), which ends its process.

`[enforce fail at .../gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 500 vs 8. Received data size
doesn't match expected size. Is there a distributed collective mismatch in your code?`
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds, marked
from rankmuster.model.frameworklog import GlooSizes
from rankmuster.model.plane import Plane

MAX_FOUND = 1024
"""One a process: it does not outlive the line."""
MAX_TEXT = 400

_MARKS = ("op.preamble.length <= op.nbytes",)
_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes\. (\d{1,15}) vs (\d{1,15})")


def read(blob: Blob) -> Reading:
    """One value a line."""
    origins = Origins(blob)
    found: list[object] = []
    for number, line in marked(blob, _MARKS):
        sizes = _SIZES.search(line)
        if sizes is not None and len(found) < MAX_FOUND:
            origin, prefix = origins.of(number, line)
            found.append(GlooSizes(origin, int(sizes[1]), int(sizes[2]), prefix.message.strip()[:MAX_TEXT]))
    return Reading(tuple(found), (), len(found))


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("gloo's sizes", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
