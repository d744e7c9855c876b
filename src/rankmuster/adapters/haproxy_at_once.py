"""The same work at every HAProxy process of a gateway, at the same time, and one answer of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rankmuster.adapters.haproxy_answers import NoServer
from rankmuster.adapters.haproxy_process import POLL_SECONDS, HaproxyProcess, Trouble
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending


@dataclass(frozen=True, slots=True)
class Part:
    """What one process answered. `ending`: DONE where it is as wanted."""

    socket: str
    ending: Ending
    note: str = ""
    data: dict[str, Any] = field(default_factory=dict)


Work = Callable[[HaproxyProcess, Deadline], Part]


def at_once(processes: Sequence[HaproxyProcess], work: Work, deadline: Deadline) -> list[Part]:
    """One part a process, in order, by the deadline: one that hangs holds up none of the others."""
    found: dict[int, Part] = {}

    def one(number: int, process: HaproxyProcess) -> None:
        try:
            found[number] = work(process, deadline)
        except Trouble as error:
            ending = Ending.REFUSED if error.refused else Ending.TIMED_OUT if error.late else Ending.FAILED
            found[number] = Part(process.socket, ending, str(error))
        except NoServer as error:
            found[number] = Part(process.socket, Ending.REFUSED, f'HAProxy answered "{error}"')

    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in enumerate(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline.remaining() + POLL_SECONDS)
    late = Ending.TIMED_OUT
    return [found.get(i) or Part(one.socket, late, "it did not answer in time") for i, one in enumerate(processes)]


def answer_of(parts: Sequence[Part]) -> Answer:
    """DONE where it is done everywhere, PARTIAL where at some; the note says where not and why."""
    data: dict[str, Any] = {"sockets": {part.socket: part.data for part in parts if part.data}}
    for key in ("requests", "running"):
        told = [part.data[key] for part in parts if key in part.data]
        if told:
            data[key] = sum(told)
    good = [part for part in parts if part.ending is Ending.DONE]
    if len(good) == len(parts):
        return Answer(ending=Ending.DONE, note=notes_of(parts), data=data)
    bad = [part for part in parts if part.ending is not Ending.DONE]
    endings = {part.ending for part in bad}
    if good:
        note = f"done at {len(good)} of {len(parts)} HAProxy processes; not at {notes_of(bad)}"
        return Answer(ending=Ending.PARTIAL, note=note, data=data)
    return Answer(ending=endings.pop() if len(endings) == 1 else Ending.FAILED, note=notes_of(bad), data=data)


def notes_of(parts: Sequence[Part]) -> str:
    """What they say, each with its socket before it."""
    return "; ".join(f"{part.socket}: {part.note}" for part in parts if part.note)
