"""What the kernel says of a process's threads where nothing can read its Python stacks: state, what each waits in, and
with root the kernel's own stack. Enough to tell a thread that sleeps on a lock from one that a driver holds."""

from __future__ import annotations

from pathlib import Path

from rankmuster.collect.process_now import read_state, thread_name, threads_of
from rankmuster.collect.target import ProcessOfInstance

MAX_TASKS = 512
"""Threads written down, the first ones: the main thread stands first, pools of idle threads last."""

_FILE_BYTES = 16_384


def kernel_text(proc: Path, process: ProcessOfInstance, why: str) -> bytes | None:
    """One block for each thread, or None when the process has gone. `why`: what kept better stacks from being taken.

    Worded so that no reader takes it for a log or for a Python stack: "task", never "thread" or "process" first.
    """
    threads = threads_of(proc, process.pid)
    lines = [
        f"# the kernel's view of pid {process.inner_pid} ({_printable(process.name)}), {len(threads)} tasks",
        f"# no Python stacks: {_printable(why)}",
    ]
    written = 0
    for thread in threads[:MAX_TASKS]:
        state = read_state(proc, process.pid, thread)
        if state is None:
            continue
        written += 1
        folder = proc / str(process.pid) / "task" / str(thread)
        wait = _read(folder / "wchan").strip()
        call = _read(folder / "syscall").split()
        number = call[0] if call and (call[0].lstrip("-").isdigit() or call[0] == "running") else "?"
        name = _printable(thread_name(proc, process.pid, thread))
        lines.append(f"task {thread} {name!r} state={state.state} wchan={wait or '?'} syscall={number}")
        lines += [f"    {line}" for line in _read(folder / "stack").splitlines()]
    if not written:
        return None
    if len(threads) > MAX_TASKS:
        lines.append(f"# {len(threads) - MAX_TASKS} more tasks")
    return ("\n".join(lines) + "\n").encode()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _printable(file.read(_FILE_BYTES).decode("utf-8", "replace"), keep="\n")
    except OSError:  # gone, or not ours to see
        return ""


def _printable(text: str, keep: str = "") -> str:
    return "".join(letter if letter.isprintable() or letter in keep else "?" for letter in text)
