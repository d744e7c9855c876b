"""A stored fingerprint is read back whole; one that was changed, cut or made to hurt is refused in words."""

from __future__ import annotations

import json
import time
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baseline.fingerprint.build_path import h200_vm, hgx
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.evidence.fingerprint_document import to_document
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.evidence.plain_yaml import MOST_BYTES
from rankmuster.model.unknown import Unknown
from rankmuster.report.fingerprint_yaml import as_json, as_yaml

STORED = as_yaml(fingerprint_of(hgx()))
STORED_JSON = as_json(fingerprint_of(hgx()))


def refusal(data: bytes | str) -> str:
    with pytest.raises(FingerprintRefused) as refused:
        read_fingerprint(data.encode() if isinstance(data, str) else data)
    return str(refused.value)


@pytest.mark.parametrize("text", [STORED, STORED_JSON], ids=["yaml", "json"])
def test_what_is_stored_is_read_back_as_it_was(text: str) -> None:
    found, sent = read_fingerprint(text.encode()), fingerprint_of(hgx())
    for one in fields(sent):
        assert getattr(found, one.name) == getattr(sent, one.name), one.name


def test_unknown_parts_stay_unknown_with_their_reasons() -> None:
    sent = fingerprint_of(replace(hgx(), driver=Unknown("it hangs"), pci=Unknown("no /sys"), matrices={}))
    found = read_fingerprint(as_yaml(sent).encode())
    assert isinstance(found.driver, Unknown)
    assert found.driver.reason == "it hangs"
    assert isinstance(found.made_from["pci"], Unknown)
    assert found != sent
    assert to_document(found) == to_document(sent)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('driver: "570.133.20"\n  topologyHash', 'driver: "580.1"\n  topologyHash', "communicationFingerprint"),
        ("host: hgx-1", "host: hgx-2", "host"),
        ("acs: off", "acs: on", "settings"),
        ("nicOrder: [0, 0", "nicOrder: [0, 1", "nicOrder"),
        ("width: 16, generation_max: 5", "width: 8, generation_max: 5", "madeFrom/gpus"),
        ("numa_nodes: 2", "numa_nodes: 4", "madeFrom/cpu"),
    ],
)
def test_a_changed_file_is_refused_with_what_was_changed(old: str, new: str, part: str) -> None:
    assert old in STORED or old.replace("off", '"off"') in STORED
    text = STORED.replace(old, new) if old in STORED else STORED.replace(old.replace("off", '"off"'), new)
    told = refusal(text)
    assert "not as it was written" in told
    assert part in told


def test_parts_that_were_added_or_lost_are_named() -> None:
    document = json.loads(STORED_JSON)
    document["madeFrom"]["more"] = 1
    del document["madeFrom"]["cpu"]
    told = refusal(json.dumps(document))
    assert "added: madeFrom/more" in told
    assert "lost: madeFrom/cpu" in told


def test_a_change_of_the_hashes_themselves_is_refused() -> None:
    document = json.loads(STORED_JSON)
    document["fingerprintHash"] = "sha256:" + "0" * 64
    assert "`fingerprintHash` says" in refusal(json.dumps(document))
    del document["sections"]
    assert "lacks" in refusal(json.dumps(document))


def test_a_file_of_another_or_a_later_schema_is_told_apart() -> None:
    assert "use a newer rankmuster" in refusal(STORED.replace("rankmuster.fingerprint/1", "rankmuster.fingerprint/9"))
    assert "its schema is" in refusal("schema: rankmuster.verdict/1\n")
    assert "its schema is null" in refusal("{}")


@pytest.mark.parametrize("place", [1, 40, 400, 4000, 9000, 20000])
@pytest.mark.parametrize("text", [STORED, STORED_JSON], ids=["yaml", "json"])
def test_a_truncated_file_is_refused(text: str, place: int) -> None:
    assert refusal(text[:place])


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (BOMB, "anchors and aliases are not taken"),
        ("schema: !!python/object/apply:os.system ['true']", "tags"),
        ("a: !binary aGk=", "tags"),
        ("[" * 100_000, "no YAML"),
        ("[" * 30 + "]" * 30, "more than 24 deep"),
        ("a: " + "{a: " * 30, "more than 24 deep"),
        ('{"a":' * 100_000, "deep"),
        ('{"a":' * 300 + "1" + "}" * 300, "more than 24 deep"),
        ("a: 1\na: 2\n", "twice"),
        ('{"a": 1, "a": 2}', "twice"),
        ("? [a]\n: 1\n", "no text"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("- 1\n" * 250_000, "more than 200,000 values"),
        ("a: " + "9" * 5_000, "63 bits"),
        ('{"a": ' + "9" * 5_000 + "}", "63 bits"),
        ('{"a": NaN}', "NaN"),
        ("", "empty"),
        ("just words", "not a mapping"),
        ("- 1", "a list, not a mapping"),
        ("a: [1, 2", "no YAML"),
        ("a: \x07", "no YAML"),
        (b"\xff\xfe\x00", "no UTF-8"),
        (b"\x00" * 64, "no YAML"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) and value.isprintable() else None,
)
def test_what_was_made_to_hurt_is_refused_at_once(data: str | bytes, told: str) -> None:
    started = time.monotonic()
    assert told in refusal(data)
    assert time.monotonic() - started < 10  # seconds; a bound on a busy machine


def test_a_file_of_100_megabytes_is_not_looked_at() -> None:
    assert f"more than {MOST_BYTES:,}" in refusal(b"a: 1\n" * 20_000_000)


def sealed(change: object) -> bytes:
    """A document with a change that its hashes know of: as a program with a fault would write it."""
    from rankmuster.evidence.fingerprint_document import hash_of, sections_of

    document = json.loads(STORED_JSON)
    change(document)
    document["sections"] = sections_of(document)
    document["fingerprintHash"] = hash_of(document["sections"])
    return json.dumps(document).encode()


WRONG_TYPES = {
    "gpuCount": lambda d: d["communicationFingerprint"].update(gpuCount="eight"),
    "gpuCount is true": lambda d: d["communicationFingerprint"].update(gpuCount=True),
    "driver": lambda d: d["communicationFingerprint"].update(driver=570),
    "nicOrder": lambda d: d.update(nicOrder=[0, "1"]),
    "settings is": lambda d: d.update(settings=[]),
    "settings/acs": lambda d: d["settings"].update(acs=1),
    "networkDeviceSet": lambda d: d["communicationFingerprint"].update(networkDeviceSet=[{"model": 3}]),
    "rateGbps": lambda d: d["communicationFingerprint"]["networkDeviceSet"][0].update(rateGbps="fast"),
    "madeFrom": lambda d: d.update(madeFrom=[]),
    "host": lambda d: d.update(host=3),
    "takenAt": lambda d: d.update(takenAt="now"),
    "it has no communicationFingerprint/engine": lambda d: d["communicationFingerprint"].pop("engine"),
    "it has no classHash": lambda d: d.pop("classHash"),
    "communicationFingerprint is": lambda d: d.update(communicationFingerprint=None),
}


@pytest.mark.parametrize("place", list(WRONG_TYPES))
def test_a_field_of_another_type_is_refused_with_its_place(place: str) -> None:
    assert place in refusal(sealed(WRONG_TYPES[place]))


def test_fields_of_a_later_version_are_passed_over() -> None:
    found = read_fingerprint(sealed(lambda d: d.update(newer={"a": [1]})))
    assert found.class_hash == fingerprint_of(hgx()).class_hash


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    assert refusal(data)


SMALL = as_yaml(fingerprint_of(h200_vm())).encode()


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_one_changed_byte_is_refused_or_changes_nothing(place: int, by: int) -> None:
    broken = bytearray(SMALL)
    broken[place] ^= by
    try:
        found = read_fingerprint(bytes(broken))
    except FingerprintRefused as refused:
        assert str(refused)  # noqa: PT017  # either outcome is right
        return
    assert to_document(found) == to_document(fingerprint_of(h200_vm()))
