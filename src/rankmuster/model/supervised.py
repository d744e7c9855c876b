"""What the supervisor of a process group says of the group's end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SupervisedEnd:
    """Of one incarnation. Times in unix seconds.

    `over`: nothing of it lives. `by`: who had it ended, in words; empty where it ended by itself. `launcher_code`: how
    the command itself ended (-N for signal N), None unknown or while it lives; `launcher_at`: when that was seen.
    `ended_after`: processes that lived on then, and that the supervisor ended. `log`: where the command's output went,
    None where that cannot be read again.
    """

    source: str
    over: bool
    by: str = ""
    launcher_pid: int | None = None
    launcher_name: str = ""
    launcher_code: int | None = None
    launcher_at: float | None = None
    ended_after: int = 0
    log: str | None = None
