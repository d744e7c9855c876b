"""What is stored can be listed without reading all of it."""

from __future__ import annotations

from dataclasses import replace

from history_made import CLASS, DAY, START, fingerprint, hash_of
from rankmuster.model.unknown import Unknown
from rankmuster.store.fingerprint_heads import documents, heads
from rankmuster.store.history import History


def test_heads_are_of_all_nodes_by_time_and_lead_to_their_documents(history: History) -> None:
    history.put_fingerprint(fingerprint(node="node-b", taken_at=START + 2 * DAY), b"b")
    history.put_fingerprint(fingerprint(taken_at=START), b"a")
    found = heads(history)
    assert [(one.host, one.taken_at) for one in found] == [("node-a", START), ("node-b", START + 2 * DAY)]
    assert (found[0].class_hash, found[0].node_hash) == (CLASS, hash_of("node-a"))
    assert documents(history, [one.number for one in found]) == {found[0].number: b"a", found[1].number: b"b"}
    assert documents(history, [999_999]) == {}
    assert documents(history, []) == {}


def test_unknown_hashes_are_none(history: History) -> None:
    nobody = replace(fingerprint(), class_hash=Unknown("no NVML"), kin_hash=Unknown("no NVML"))
    history.put_fingerprint(nobody, b"x")
    assert heads(history)[0].class_hash is None


def test_an_empty_history_has_none(history: History) -> None:
    assert heads(history) == ()
