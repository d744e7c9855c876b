"""Where text goes: standard output, whose reader may leave at any time, or a file that is whole or not there."""

from __future__ import annotations

import os
import stat
import sys
import uuid
from pathlib import Path

from rankmuster.cli.status import CommandError

NARROWEST = 40
"""Columns; a narrower terminal breaks the lines itself."""

WIDEST_TABLE = 160
"""Columns; in a wider terminal eyes lose the row."""


def write_stdout(text: str) -> None:
    """Writes `text` as UTF-8. A reader that left (`| head`) is no fault, and the exit status stays the command's own.

    Undecodable bytes of file names come as lone surrogates; they are written as backslash escapes, which JSON reads.
    """
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        leave_stdout()
    except OSError as error:
        leave_stdout()
        raise CommandError(f"cannot write to standard output: {error.strerror or error}") from error


def leave_stdout() -> None:
    """Points standard output at nothing, so that the interpreter's last flush cannot fail a second time."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """One line to standard error, on a narrower terminal in lines that hang below the first; never fails."""
    try:
        sys.stderr.write(_hung(text.encode("utf-8", "backslashreplace").decode("utf-8")) + "\n")
        sys.stderr.flush()
    except (OSError, UnicodeEncodeError, ValueError):
        pass


def _hung(text: str) -> str:
    """For a person at a screen; in a log or a pipe one line stays one."""
    if not sys.stderr.isatty():
        return text
    import shutil  # 1 MB that a watch, which writes to a log, does without
    import textwrap

    columns = shutil.get_terminal_size().columns
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())] + "    "
        lines += textwrap.wrap(
            line,
            max(columns, NARROWEST),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(lines)


def table_width() -> int:
    """Columns for a table: the screen's, or the widest where there is none."""
    import shutil

    return min(WIDEST_TABLE, shutil.get_terminal_size((WIDEST_TABLE, 24)).columns)


def deliver(text: str, output: Path | None) -> bool:
    """Writes `text` to standard output (None, or a dash), or to a file, which is said. Returns whether to a file.

    Raises CommandError where it cannot be written.
    """
    if output is None or str(output) == "-":
        write_stdout(text)
        return False
    write_file(output, text)
    say(f"wrote {output}")
    return True


def write_file(path: Path, text: str) -> None:
    """Writes `text` to `path` by way of a file beside it and a rename: a reader sees the old file or the new one.

    What is no regular file (`/dev/stdout`, a named pipe) is written in place, since a rename would replace it.

    Raises:
        CommandError: it cannot be written; nothing is left behind.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """As `write_file`, for what is no text."""
    target = Path(os.path.realpath(path))
    beside = target.parent / f".{target.name[:100]}.{uuid.uuid4().hex[:12]}.part"
    try:
        # of the path as given: where /dev/stdout leads is a name that only the kernel can open
        if path.is_dir():
            raise CommandError(f"cannot write {path}: it is a folder; name a file in it")
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            path.write_bytes(data)
            return
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error
