"""Calls that the kernel or a resolver may hold up for ever: each in a thread that can be left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The call did not end in time, or its thread could not be started."""


def within(seconds: float, call: Callable[[], T], name: str) -> T:
    """What `call` returns or raises, if it ends within `seconds`; `name`: of the thread. Raises Late otherwise."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:  # handed over to the caller, whole
            errors.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the limit on threads
        raise Late(str(error)) from error
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Late(f"not done within {seconds:.1f} s")
    return results[0]
