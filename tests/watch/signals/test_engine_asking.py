"""Several servers at once: who does not come back makes nobody late, and is not asked over again meanwhile."""

from __future__ import annotations

import threading
import time

from engine_serving import always

from page_server import serving
from rankmuster.collect.deadline import Deadline
from rankmuster.watch.signals.engine_asking import Asking
from rankmuster.watch.signals.engine_filter import PageFilter, wanted
from rankmuster.watch.signals.engine_server import Answer, Refusal, Server

PATTERN = wanted(["a"])


def server(url: str) -> Server:
    return Server((url,), engine=None, clock=time.monotonic, unix_now=time.time)


def test_a_question_that_does_not_come_back_is_on_once_and_makes_nobody_late() -> None:
    over, begun = threading.Event(), []

    def stuck() -> PageFilter:  # as the resolver may be: nothing can end it
        begun.append(1)
        over.wait(30)
        return PageFilter(PATTERN)

    with serving(always("a 1\n")) as url:
        asking = Asking([server(f"{url}/1"), server(f"{url}/2")], time.monotonic)
        try:
            filters = [stuck, lambda: PageFilter(PATTERN)]
            first = asking.ask(Deadline.after(0.5), filters)
            second = asking.ask(Deadline.after(0.5), filters)
        finally:
            over.set()
        assert begun == [1]
        for (late, answer), word in ((first, "is under way"), (second, "still under way")):
            assert isinstance(late, Refusal)
            assert word in late.reason
            assert isinstance(answer, Answer)
        end = time.monotonic() + 10
        while not isinstance(asking.ask(Deadline.after(1), [lambda: PageFilter(PATTERN)] * 2)[0], Answer):
            assert time.monotonic() < end
        asking.close()


def test_a_defect_is_one_servers_failure() -> None:
    def broken() -> PageFilter:
        raise ZeroDivisionError("a defect")

    with serving(always("a 1\n")) as url:
        asking = Asking([server(f"{url}/1"), server(f"{url}/2")], time.monotonic)
        bad, good = asking.ask(Deadline.after(5), [broken, lambda: PageFilter(PATTERN)])
    assert isinstance(bad, Refusal)
    assert "ZeroDivisionError: a defect" in bad.reason
    assert isinstance(good, Answer)
