"""Processes that read files where there is no native reader: one pipe each, so that one that dies is noticed at once.

The pool of the standard library waits for ever where a process is killed in the middle of a result, and its processes
outlive a program that is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rankmuster.cli.status import CommandError
from rankmuster.evidence.blob import Blob

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")


class Processes(Generic[T, R]):
    """`count` processes that each call `call`, as a context; calls may come from as many threads."""

    def __init__(self, call: Callable[[T], R], count: int) -> None:
        import multiprocessing
        from queue import SimpleQueue

        # A fresh interpreter per process takes longer than reading a hundred dumps. Forked before there is any thread:
        # what another one was importing would never be there in the child.
        context = multiprocessing.get_context("fork")
        self._free: SimpleQueue[Connection[Any, Any]] = SimpleQueue()
        self._processes = []
        ours: list[Connection[Any, Any]] = []
        for _ in range(count):
            here, there = context.Pipe()
            ours.append(here)
            process = context.Process(target=_serve, args=(call, there, tuple(ours)), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._free.put(here)
        self._ours = ours

    def __enter__(self) -> Processes[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for process in self._processes:
            process.join()
        for connection in self._ours:
            connection.close()

    def end(self) -> None:
        """Ends them, whatever they do: one may be half-way through a file of 128 MiB that nobody waits for any more."""
        for process in self._processes:
            process.kill()

    def __call__(self, part: T) -> R:
        """`call(part)`, in a process that has nothing else to do.

        Raises what it raises, and CommandError where the process died of it.
        """
        connection = self._free.get()
        try:
            _send(connection, part)
            good, value = connection.recv()
        except (EOFError, OSError) as error:
            path = getattr(part, "path", "a file")
            raise CommandError(
                f"the process that was reading {path} was killed, most often because memory ran out; free some, leave "
                "that file out, or install with a C compiler: the native reader takes less"
            ) from error
        finally:
            self._free.put(connection)
        if good:
            result: R = value
            return result
        raise value


def _send(connection: Connection[Any, Any], part: Any) -> None:
    """Bytes of a file as they are: pickled, they would be copied twice more, on either side."""
    if isinstance(part, Blob):
        connection.send((Blob, part.path))
        connection.send_bytes(part.data)
    else:
        connection.send((None, part))


def _received(connection: Connection[Any, Any]) -> Any:
    kind, value = connection.recv()
    return Blob(value, connection.recv_bytes()) if kind is Blob else value


def _serve(call: Callable[[Any], Any], connection: Connection[Any, Any], others: tuple[Any, ...]) -> None:
    """What a process does until the program goes away, which is the end of its pipe."""
    from threading import Thread

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C goes to all; the program ends its own
    Thread(target=_end_with_the_program, daemon=True).start()
    for other in others:
        other.close()
    while True:
        try:
            part = _received(connection)
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer = (True, call(part))
        except Exception as error:
            answer = (False, error)
        try:
            connection.send(answer)
        except OSError:
            os._exit(0)


def _end_with_the_program() -> None:
    """A program that is killed (by `timeout`, say) can tell nobody, and a large file takes a minute."""
    import multiprocessing

    program = multiprocessing.parent_process()
    if program is not None:
        program.join()
        os._exit(1)
