"""One script in a container: what it printed, as far as it came, and why it is not all. Raises nothing for expected
trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankmuster.adapters.kube import shell_scripts as scripts
from rankmuster.adapters.kube.api import Api, Forbidden, KubeError
from rankmuster.adapters.kube.pod_exec import EXEC_RIGHT, denied, how_it_ended
from rankmuster.adapters.kube.shell_records import Record, Records, TooLong
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import PodView

MOST_RECORDS = 60_000
"""Of one script: a process table of 5,000 processes."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Of one exec. `trouble`: why it is not all; empty where it is. `refused`: since a right is missing."""

    records: tuple[Record, ...] = ()
    raw: bytes = b""
    trouble: str = ""
    refused: bool = False
    at: float = 0.0


def run_script(
    api: Api,
    pod: PodView,
    container: str,
    make: Callable[[str], Sequence[str]],
    deadline: Deadline,
    now: Callable[[], float],
    most: int,
    *,
    raw: bool = False,
) -> Heard:
    """One exec; what came before it hung, broke or was refused is kept. `raw`: no records, one stream."""
    mark = scripts.boundary()
    taker = Records(mark, most, MOST_RECORDS)
    kept = bytearray()
    at = now()

    def write(data: bytes) -> None:
        if not raw:
            taker(data)
        elif len(kept) < most:
            kept.extend(data)

    trouble, refused = "", False
    try:
        ran = api.execute(pod.name, pod.namespace, container, list(make(mark)), deadline, most_bytes=most, write=write)
        if not raw and not taker.complete:
            trouble = f"the script did not come to its end ({how_it_ended(ran)})"
        elif ran.status != 0:
            trouble = how_it_ended(ran)
    except TooLong as error:
        trouble = str(error)
    except KubeError as error:
        trouble, refused = denied(error, EXEC_RIGHT), isinstance(error, Forbidden)
    return Heard(taker.end(), bytes(kept), trouble, refused, at)
