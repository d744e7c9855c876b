"""Stacks of threads in logs and dumps: py-spy, CPython's faulthandler, torch's stack of a failed collective, gdb, and
the dumps that vLLM's, SGLang's and TensorRT-LLM's watchdogs write.

Frames come innermost first, as "function (file:line)"; a frame without Python source is "function (library)".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rankmuster.evidence import text, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds
from rankmuster.evidence.log_prefix import whole
from rankmuster.model.frameworklog import LineOrigin, ThreadStack
from rankmuster.model.plane import Plane

MAX_FRAMES = 400
"""Frames kept of one thread; faulthandler itself stops at 100, compiled models go to about 250."""
MAX_STACKS = 20_000
"""Stacks of one file."""

_MARKS = (
    "(most recent call first)", "Stack trace of the failed collective", "Thread 0x", 'Thread ', "Call stack dump #",
)  # fmt: skip
_PYSPY = re.compile(
    r"^Thread (?:0x[0-9A-Fa-f]{1,16}|\d{1,9}) \((?:idle|active)[^()]{0,20}\)(?:: \"?(?P<name>[^\"\n]{0,200}))?"
)
_PYSPY_SHORT = re.compile(r'^Thread (?P<id>\d{1,9}): "(?P<name>[^"\n]{0,200})"$')
_FAULT = re.compile(
    r"^(?P<who>Thread|Current thread) (?P<id>0x[0-9A-Fa-f]{1,16})(?: \[(?P<name>[^\]\n]{0,100})\])?"
    r" \(most recent call first\)"
)
_TORCH = "Stack trace of the failed collective"
_GDB = re.compile(
    r"^Thread \d{1,6} \((?:Thread 0x[0-9a-f]{1,16} )?\(?LWP (?P<lwp>\d{1,9})\)?(?: \"(?P<name>[^\"\n]{0,100})\")?"
)
_FORMATTED = re.compile(r"^Thread (?P<id>\d{1,20}) (?:stack trace|\([^()\n]{0,100}\) stack):?")
_PROCESS = re.compile(r"^Process (\d{1,9})(?:: |$)")
_VLLM = re.compile(r">>> Call stack dump #\d{1,9} at (?P<when>[^\n]{10,40}?) due to")

_PYSPY_FRAME = re.compile(r"^ {4,8}(\S.{0,400}?) \(([^()\n]{1,400}?)\)$")
_FILE_FRAME = re.compile(r'^\s{1,8}File "([^"\n]{1,400})", line (\d{1,9}|\?\?\?)(?:,)? in (\S.{0,200}?)$')
_TORCH_FRAME = re.compile(r"^#(\d{1,4}) (.{1,400}?) from (.{1,400}?)$")
_GDB_FRAME = re.compile(r"^#(\d{1,4})\s{1,3}(?:0x[0-9a-f]{1,16} in )?([^\s(][^\n]{0,300}?) ?\(")


def _pyspy_frame(line: str) -> str | None:
    m = _PYSPY_FRAME.match(line)
    if m:
        return f"{m.group(1)} ({m.group(2)})"
    return line.strip()[:200] if line.startswith("    0x") else None


def _file_frame(line: str) -> str | None:
    m = _FILE_FRAME.match(line)
    return f"{m.group(3)} ({m.group(1)}:{m.group(2)})" if m else None


def _torch_frame(line: str) -> str | None:
    m = _TORCH_FRAME.match(line)
    return f"{m.group(2)} ({m.group(3)})" if m else None


def _gdb_frame(line: str) -> str | None:
    m = _GDB_FRAME.match(line)
    if m is None:
        return None
    place = re.search(r" (?:from|at) (\S{1,400})$", line)
    return f"{m.group(2)} ({place.group(1) if place else '?'})"


@dataclass
class _Open:
    origin: LineOrigin
    thread: str
    tool: str
    frame: Callable[[str], str | None]
    reverse: bool = False
    frames: list[str] = field(default_factory=list)


@dataclass
class _Context:
    """What stands above the threads: the dumped process and the watchdog's own header."""

    pid: int | None = None
    header: LineOrigin | None = None


def _opened(origin: LineOrigin, message: str, context: _Context) -> _Open | None:
    if _TORCH in message:
        return _Open(origin, "collective", "torch", _torch_frame) if "not found" not in message else None
    if "hread " not in message[:20]:
        return None
    fault = _FAULT.match(message)
    if fault:
        current = fault["who"] == "Current thread"
        name = fault["name"] or fault["id"]
        tool = "vllm" if context.header is not None else "faulthandler"
        return _Open(origin, f"{name} (current)" if current else name, tool, _file_frame)
    gdb = _GDB.match(message)
    if gdb:
        return _Open(origin, gdb["name"] or f"LWP {gdb['lwp']}", "gdb", _gdb_frame)
    pyspy = _PYSPY.match(message) or _PYSPY_SHORT.match(message)
    if pyspy:
        name = (pyspy["name"] or "").strip() or message.split(":")[0]
        return _Open(origin, name, "py-spy", _pyspy_frame)
    formatted = _FORMATTED.match(message)
    if formatted:
        return _Open(origin, formatted["id"], "python", _file_frame, reverse=True)
    return None


def _close(stack: _Open | None, found: list[object]) -> None:
    if stack is None or not stack.frames or len(found) >= MAX_STACKS:
        return
    frames = stack.frames[::-1] if stack.reverse else stack.frames
    found.append(ThreadStack(stack.origin, stack.thread, tuple(frames), stack.tool))


def read(blob: Blob) -> Reading:
    """ThreadStacks in the blob's order."""
    if not any(mark.encode() in blob.data for mark in _MARKS):
        return Reading()
    origins = Origins(blob)
    found: list[object] = []
    context = _Context()
    stack: _Open | None = None
    for number, line in text.lines(blob.data):
        if stack is not None:
            frame = stack.frame(line)
            if frame is None and line[:1] in "[(":
                frame = stack.frame(origins.of(number, line)[1].message)
            if frame is not None:
                if len(stack.frames) < MAX_FRAMES:
                    stack.frames.append(frame)
                continue
            if stack.reverse and line.startswith("    "):
                continue  # the source text under a formatted frame
            if line.strip() == "..." or (not line.strip() and not stack.frames):
                continue
            _close(stack, found)
            stack = None
        if not ("hread " in line or _TORCH in line or "Process " in line or ">>> Call stack" in line):
            continue
        origin, prefix = origins.of(number, line)
        message = prefix.message
        process = _PROCESS.match(message)
        vllm = _VLLM.search(message)
        if process:
            context.pid = whole(process.group(1))
        elif vllm:
            context.header = _stamped(origin, vllm["when"])
        else:
            stack = _opened(_placed(origin, context), message, context)
            if stack is not None and stack.tool == "py-spy" and stack.origin.pid is None:
                stack.origin = replace(stack.origin, pid=context.pid)
    _close(stack, found)
    return Reading(tuple(found), (), len(found))


def _stamped(origin: LineOrigin, when: str) -> LineOrigin:
    return replace(origin, stamp=times.syslog(when))


def _placed(origin: LineOrigin, context: _Context) -> LineOrigin:
    header = context.header
    stamp = origin.stamp or (header.stamp if header else None)
    return replace(origin, stamp=stamp)


def _recognises(blob: Blob) -> bool:
    if not holds(blob, _MARKS):
        return False
    return _ANY.search(blob.data) is not None


_ANY = re.compile(
    rb"\(most recent call first\)|Stack trace of the failed collective|Thread (?:0x[0-9A-Fa-f]+|\d+) \((?:idle|active)|"
    rb"Thread \d+ \((?:Thread 0x[0-9a-f]+ )?\(?LWP |Thread \d+ stack trace|Thread \d+: \""
)

READER = Reader("thread stacks", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
