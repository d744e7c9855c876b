"""Fingerprints and admissions are kept as the bytes they are, and what is stored never changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from history_made import CLASS, DAY, KIN, START, admission, fingerprint, hash_of, run
from rankmuster.model.fingerprint import NetworkDevice
from rankmuster.model.unknown import Unknown
from rankmuster.store.errors import Conflict, Refused
from rankmuster.store.history import History

DOCUMENT = "schema: rankmuster.fingerprint/1\nhost: knöten\n".encode()


def test_a_fingerprint_comes_back_byte_for_byte(history: History) -> None:
    assert history.put_fingerprint(fingerprint(), DOCUMENT)
    assert not history.put_fingerprint(fingerprint(), DOCUMENT)
    (found,) = history.fingerprints()
    assert found.document == DOCUMENT
    assert (found.host, found.taken_at, found.gpu_model, found.gpu_count) == ("node-a", START, "NVIDIA H200", 8)
    assert (found.class_hash, found.kin_hash, found.node_hash) == (CLASS, KIN, hash_of("node-a"))


def test_the_newest_is_found_by_node_and_by_host_and_the_one_of_a_day(history: History) -> None:
    for number in range(3):
        history.put_fingerprint(fingerprint(taken_at=START + number * DAY), b"%d" % number)
    history.put_fingerprint(fingerprint(node="node-b", taken_at=START + 9 * DAY), b"b")
    for name in ("node-a", hash_of("node-a")):
        newest = history.fingerprint_of(name)
        assert newest is not None
        assert newest.document == b"2"
        then = history.fingerprint_of(name, at=START + 1.5 * DAY)
        assert then is not None
        assert then.document == b"1"
    assert history.fingerprint_of("node-a", at=START - 1) is None
    assert history.fingerprint_of("nobody") is None
    assert [one.document for one in history.fingerprints(class_hash=CLASS)] == [b"0", b"1", b"2", b"b"]


def test_another_content_of_the_same_node_and_time_is_refused(history: History) -> None:
    history.put_fingerprint(fingerprint(), DOCUMENT)
    with pytest.raises(Conflict, match="never changes"):
        history.put_fingerprint(fingerprint(), DOCUMENT + b"#")
    assert [one.document for one in history.fingerprints()] == [DOCUMENT]


def test_a_class_hash_over_other_things_is_refused_and_named(history: History) -> None:
    history.put_fingerprint(fingerprint(), DOCUMENT)
    other = fingerprint(node="node-b", driver="570.1")
    with pytest.raises(Conflict, match=r"\(driver\)"):
        history.put_fingerprint(other, DOCUMENT)
    with pytest.raises(Conflict, match="settings"):
        history.put_fingerprint(replace(fingerprint(node="node-c"), settings={}), DOCUMENT)
    assert len(history.fingerprints()) == 1


def test_the_same_parts_written_otherwise_are_the_same_class(history: History) -> None:
    history.put_fingerprint(fingerprint(), DOCUMENT)
    devices = (NetworkDevice("A", "Ethernet", 25, None, 1), NetworkDevice("B", "InfiniBand", 400.0, "1", 8))
    first = replace(fingerprint(node="x"), network_device_set=devices, class_hash=hash_of("two kinds"))
    again = (NetworkDevice("B", "InfiniBand", 400, "1", 8), NetworkDevice("A", "Ethernet", 25.0, None, 1))
    history.put_fingerprint(first, DOCUMENT)
    assert history.put_fingerprint(replace(first, host="y", node_hash=hash_of("y"), network_device_set=again), DOCUMENT)
    with pytest.raises(Refused, match="does not say when it was taken"):
        history.put_fingerprint(fingerprint(node="z", taken_at=float("nan")), DOCUMENT)


def test_a_run_and_a_fingerprint_of_one_class_agree_on_its_settings(history: History) -> None:
    history.put(run())
    history.put_fingerprint(fingerprint(), DOCUMENT)
    with pytest.raises(Conflict):
        history.put(run(1, settings=()))


def test_a_fingerprint_with_unknown_parts_is_kept_and_of_no_class(history: History) -> None:
    unknown = Unknown("no nvidia-smi")
    blind = replace(
        fingerprint(), driver=unknown, class_hash=unknown, kin_hash=unknown, node_hash=unknown, gpu_count=unknown
    )
    assert history.put_fingerprint(blind, DOCUMENT)
    assert history.put_fingerprint(replace(blind, taken_at=START + 1), DOCUMENT)
    found = history.fingerprint_of("node-a")
    assert found is not None
    assert (found.class_hash, found.node_hash, found.gpu_count) == (None, None, None)
    nameless = replace(blind, host=None)
    assert history.put_fingerprint(nameless, b"1")
    assert history.put_fingerprint(nameless, b"2")
    assert not history.put_fingerprint(nameless, b"2")


def test_node_models_are_counted_by_nodes(history: History) -> None:
    for node in ("node-a", "node-b"):
        for number in range(2):
            history.put_fingerprint(fingerprint(node=node, taken_at=START + number), b"x")
    odd = replace(fingerprint(node="odd"), topology_hash=hash_of("odd"), class_hash=hash_of("odd class"))
    history.put_fingerprint(odd, b"x")
    assert history.topologies("NVIDIA H200", 8) == {hash_of("topology"): 2, hash_of("odd"): 1}
    assert history.topologies("NVIDIA H200", 4) == {}


def test_an_admission_is_kept_by_its_hash(history: History) -> None:
    assert history.put_admission(admission(nodes=("node-a", "node-b")), b"{}")
    assert not history.put_admission(admission(nodes=("node-a", "node-b")), b"{}")
    history.put_admission(admission("two", started_at=START + 1), b"{2}")
    assert [one.document for one in history.admissions()] == [b"{2}", b"{}"]
    (found,) = history.admissions(node="node-b")
    assert (found.decision, found.nodes, found.class_hash) == ("pass", ("node-a", "node-b"), CLASS)
    assert len(history.admissions(limit=1)) == 1
    with pytest.raises(Conflict, match="other content"):
        history.put_admission(admission(nodes=("node-a", "node-b")), b"[]")
    with pytest.raises(Refused, match="no hash"):
        history.put_admission(replace(admission(), hash=""), b"{}")
