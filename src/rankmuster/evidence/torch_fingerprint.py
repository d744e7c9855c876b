"""torch's own comparison of calls: `Detected mismatch between collectives on ranks` (ProcessGroupWrapper.cpp, 1.9 on).

With TORCH_DISTRIBUTED_DEBUG=DETAIL every collective is compared before it runs. The message names two ranks and what
each called: enough for what differs, not for who is wrong. Before 2.1 the second side has an operation only.
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds, marked
from rankmuster.evidence.log_prefix import whole
from rankmuster.model.frameworklog import CollectiveFingerprint
from rankmuster.model.plane import Plane

MARK = "Detected mismatch between collectives on ranks"
MAX_PAIRS = 4096
"""Messages of one file; every rank of a large job prints its own."""

_SIDE = re.compile(
    r"Rank (?P<rank>\d{1,9}) is running (?:inconsistent )?collective: (?:CollectiveFingerPrint\("
    r"(?:SequenceNumber=(?P<seq>\d{1,18}),? ?)?OpType=(?P<op>\w{1,40})"
    r"(?:, TensorShape=\[(?P<shape>[\d, ]{0,200})\])?(?:, TensorDtypes=(?P<dtype>\w{1,40}))?|(?P<bare>[A-Z_]{3,40}))"
)


def read(blob: Blob) -> Reading:
    """CollectiveFingerprints, two a message, each message once per rank."""
    origins = Origins(blob)
    told: set[tuple[object, ...]] = set()
    found: list[object] = []
    for number, line in marked(blob, (MARK,)):
        sides = list(_SIDE.finditer(line))[:2]
        origin, _ = origins.of(number, line)
        key = (origin.rank, *(m.group(0) for m in sides))
        if not sides or key in told or len(told) >= MAX_PAIRS:
            continue
        told.add(key)
        for m in sides:
            found.append(
                CollectiveFingerprint(
                    origin,
                    len(told),
                    int(m["rank"]),
                    whole(m["seq"]),
                    m["op"] or m["bare"],
                    m["shape"],
                    m["dtype"],
                )
            )
    return Reading(tuple(found), (), len(told))


def _recognises(blob: Blob) -> bool:
    return holds(blob, (MARK,))


READER = Reader("torch collective fingerprints", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
