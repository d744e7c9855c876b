"""What a service can do is found without touching the job, and says between which releases it is."""

from __future__ import annotations

import itertools

import fake_server
import pytest
from fake_server import ERAS, FakeServer, era

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.address import Endpoint, addresses
from rankmuster.collect.ras.client import Broken, Service
from rankmuster.collect.ras.probe import Abilities, probe
from rankmuster.collect.ras.release import RAS_SINCE, Span, release_in


def _probe(server: FakeServer) -> Abilities:
    deadline = Deadline.after(5)
    with Service(addresses(Endpoint("127.0.0.1", server.port), deadline)).open(deadline) as session:
        return probe(session, deadline)


@pytest.mark.parametrize("release", ERAS)
def test_the_span_holds_the_release_and_no_other_era(release):
    with FakeServer(era(release)) as server:
        abilities = _probe(server)
    number = release_in(release)
    assert abilities.consistent
    assert Span.exactly(number).within(abilities.span)
    others = {era(other).number for other in ERAS}
    inside = {other for other in others if Span.exactly(release_in(".".join(map(str, other)))).within(abilities.span)}
    firsts = [(2, 24, 3), (2, 28, 7), (2, 29, 2), (2, 31, 2), (2, 32, 3)]
    group = max(first for first in firsts if first <= tuple(number))
    assert all(max(first for first in firsts if first <= other) == group for other in inside)


@pytest.mark.parametrize("release", ERAS)
def test_four_questions_and_none_of_them_starts_anything(release):
    with FakeServer(era(release)) as server:
        abilities = _probe(server)
    assert server.commands == ["CLIENT PROTOCOL 2", "SET FORMAT json", "MONITOR bogus", "CONTROL x", "TIMEOUT 0.5"]
    assert [question for question, _ in abilities.answers] == server.commands[1:]
    assert server.violations == []


def test_abilities_that_contradict_one_another_narrow_nothing():
    for have in itertools.product((False, True), repeat=4):
        abilities = Abilities(*have)
        if not abilities.consistent:
            assert abilities.span == Span(RAS_SINCE, None)


@pytest.mark.parametrize("position", range(4))
def test_an_answer_that_no_release_gives_ends_the_probe(position):
    def handler(server: FakeServer, connection) -> None:
        for number, line in enumerate(fake_server.greet(server, connection)):
            strange = number == position
            answer = "Merry Christmas" if strange else fake_server.answer_of(line.upper(), line, era("2.32.3"))
            connection.sendall(answer.encode() + b"\n")

    with FakeServer(handler=handler) as server, pytest.raises(Broken, match="which no NCCL says"):
        _probe(server)


def test_answers_may_end_as_on_windows_and_arrive_in_pieces():
    def handler(server: FakeServer, connection) -> None:
        for line in server.lines(connection):
            for byte in (fake_server.answer_of(line.upper(), line, era("2.31.2")) + "\r\n").encode():
                connection.sendall(bytes([byte]))

    with FakeServer(handler=handler) as server:
        assert _probe(server).diagnostics
