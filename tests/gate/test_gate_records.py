"""Records of releases: sealed, chained, written once; what was changed, left out or exchanged is found."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.gate.artefact import artefact_hash, differences
from rankmuster.gate.chain import NoSuchRecord, fold, next_record
from rankmuster.gate.document import NotARecord, Tampered, TooLong, of_plain, plain, read, render, seal
from rankmuster.gate.records import FolderRecords, RecordsUnusable
from rankmuster.model.release import (
    Artefact,
    Checklist,
    Item,
    ItemResult,
    ItemState,
    Part,
    RecordKind,
    ReleaseRecord,
    Setting,
)

NAME = "llm-0"


def artefact(**settings: str) -> Artefact:
    part = Part("Pod llm, container vllm", "spec/containers/vllm", "vllm@sha256:aa", "sha256:aa", ())
    given = tuple(Setting(name, value) for name, value in settings.items())
    return Artefact(NAME, {"nccl": "2.28.9"}, ("sha256:t",), ("sha256:c",), "p@1", (replace(part, settings=given),))


def approval(reason: str = "", **settings: str) -> ReleaseRecord:
    results = (ItemResult(Item.ARTEFACT, ItemState.PASS, "well"),)
    checklist = Checklist(NAME, 1.0, "1", results)
    made = artefact(**settings)
    return ReleaseRecord(RecordKind.APPROVAL, NAME, 0, 1.0, "jane", reason, artefact=made, checklist=checklist)


def rollback(to: str) -> ReleaseRecord:
    return ReleaseRecord(RecordKind.ROLLBACK, NAME, 0, 1.0, "jane", "slow", to=to)


def chained(place: FolderRecords, *records: ReleaseRecord) -> list[ReleaseRecord]:
    made = []
    for one in records:
        made.append(next_record(place.chain(NAME), one))
        place.add(made[-1])
    return made


def test_a_record_is_read_back_as_it_was_written():
    made = seal(replace(approval("it is good", NCCL_ALGO="Ring"), number=1))
    assert read(render(made)) == made
    assert render(made).isascii()


@given(st.text(max_size=200), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_of_people_and_any_value_survives(reason, value):
    made = seal(replace(approval(reason, NCCL_X=value), number=1))
    found = read(render(made).encode())
    assert found.artefact.parts[0].settings[0].value == value
    assert found.hash == made.hash


def test_a_changed_record_is_refused_with_the_reason():
    document = plain(seal(replace(approval(NCCL_ALGO="Ring"), number=1)))
    document["artefact"]["parts"][0]["settings"][0]["value"] = "Tree"
    with pytest.raises(Tampered, match="not as it was written"):
        of_plain(document)


@pytest.mark.parametrize(
    ("data", "error", "word"),
    [
        (b"", NotARecord, "no whole JSON"),
        (b"[]", NotARecord, "no object"),
        (b'{"schema": "rankmuster.release/9"}', NotARecord, "this version reads rankmuster.release/1"),
        (b'{"schema": "rankmuster.release/1"}', Tampered, "hash"),
        (b'{"schema": 1, "schema": 2}', Tampered, "twice"),
        (b'{"schema": NaN}', NotARecord, "no JSON"),
        (b"\xff\xfe", NotARecord, "no whole JSON"),
        (b"[" * 100_000, NotARecord, "no whole JSON"),
    ],
)
def test_what_is_no_record_is_refused(data, error, word):
    with pytest.raises(error, match=word):
        read(data)


@given(st.integers(min_value=0, max_value=5_000))
def test_a_record_that_is_cut_anywhere_is_refused(length):
    whole = render(seal(replace(approval(), number=1)))
    if length < len(whole.rstrip()):
        with pytest.raises(NotARecord):
            read(whole[:length])


def test_a_resealed_record_without_its_fields_is_no_record():
    from rankmuster.model.digest import ascii_digest

    document = {"schema": "rankmuster.release/1", "kind": "approval"}
    document["hash"] = ascii_digest(document)
    with pytest.raises(NotARecord, match="no whole record"):
        of_plain(document)


def test_a_value_that_a_record_would_cut_is_refused_before_it_is_written():
    with pytest.raises(TooLong, match="settings"):
        seal(approval(NCCL_X="x" * 40_000))


def test_the_chain_says_what_is_approved_and_what_was_good_before(tmp_path):
    place = FolderRecords(tmp_path)
    assert place.chain(NAME).current is None
    first, second = chained(place, approval(NCCL_ALGO="Ring"), approval(NCCL_ALGO="Tree"))
    chain = place.chain(NAME)
    assert (chain.current, chain.last_good) == (second, first)
    (back,) = chained(place, rollback(first.hash))
    chain = place.chain(NAME)
    assert chain.current == first
    assert chain.last_good is None
    assert chain.bad == {second.hash}
    (third,) = chained(place, approval(NCCL_ALGO="Auto"))
    chain = place.chain(NAME)
    assert (chain.current, chain.last_good) == (third, first), "what was rolled back from is never gone back to"
    assert [one.number for one in chain.records] == [1, 2, 3, 4]
    assert chain.approval("1") == first
    assert chain.approval(third.hash[:15]) == third
    assert chain.approval(third.hash.removeprefix("sha256:")[:9]) == third
    for digits in ("9", "sha256:", "", "zz"):
        with pytest.raises(NoSuchRecord, match="there is"):
            chain.approval(digits)
    assert back.number == 3
    assert place.releases() == (NAME,)


def test_files_are_written_once_and_by_one(tmp_path):
    place = FolderRecords(tmp_path)
    made = next_record(place.chain(NAME), approval())
    wanted = [next_record(fold(NAME, ()), approval(str(number))) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        tries = [pool.submit(FolderRecords(tmp_path).add, one) for one in wanted]
    errors = [one.exception() for one in tries]
    assert errors.count(None) == 1
    assert all(isinstance(one, RecordsUnusable) for one in errors if one is not None)
    assert [one.name for one in (tmp_path / NAME).iterdir()] == ["0001.json"]
    with pytest.raises(RecordsUnusable, match="somebody else was first"):
        place.add(made)
    assert (tmp_path / NAME / "0001.json").stat().st_mode & 0o222 == 0


def _edit(path: Path, change) -> None:
    path.chmod(0o644)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_every_way_to_tamper_with_a_folder_is_found(tmp_path):
    for number, (tamper, word) in enumerate(
        [
            (lambda at: _edit(at / "0002.json", lambda record: record.update(by="eve")), "not as it was written"),
            (lambda at: (at / "0002.json").unlink(), "record 2 is missing"),
            (lambda at: (at / "0001.json").unlink(), "record 1 is missing"),
            (lambda at: (at / "0003.json").rename(at / "0004.json"), "renamed"),
            (lambda at: (at / "0004.json").write_bytes((at / "0003.json").read_bytes()), "renamed"),
            (lambda at: (at / "extra.json").write_text("{}"), "no record is called so"),
            (lambda at: (at / "0004.json").write_text(render(_foreign(4))), "of 'llm-1'"),
            (lambda at: _replace(at / "0002.json", _other(2)), "exchanged"),
            (lambda at: _replace(at / "0003.json", _lost(at / "0002.json")), "which is no approval"),
            (lambda at: (at / "0002.json").chmod(0o644) or (at / "0002.json").write_bytes(b"x"), "no whole JSON"),
        ]
    ):
        place = FolderRecords(tmp_path / str(number))
        chained(place, approval("a"), approval("b"), approval("c"))
        tamper(tmp_path / str(number) / NAME)
        with pytest.raises(NotARecord, match=word):
            place.chain(NAME)


def _replace(path: Path, record: ReleaseRecord) -> None:
    path.unlink()
    path.write_text(render(record))


def _foreign(number: int) -> ReleaseRecord:
    return seal(replace(approval(), number=number, release="llm-1"))


def _other(number: int) -> ReleaseRecord:
    """Well sealed, and not the one that its follower was bound to: its own predecessor is another."""
    return seal(replace(approval("eve"), number=number, previous="sha256:" + "0" * 64))


def _lost(before: Path) -> ReleaseRecord:
    record = read(before.read_bytes())
    return seal(replace(rollback("sha256:" + "1" * 64), number=record.number + 1, previous=record.hash))


def test_a_whole_chain_that_was_made_anew_from_its_second_record_is_found_by_its_follower(tmp_path):
    place = FolderRecords(tmp_path)
    first, second, _ = chained(place, approval("a"), approval("b"), approval("c"))
    _replace(tmp_path / NAME / "0002.json", seal(replace(second, reason="forged", hash="")))
    with pytest.raises(Tampered, match="exchanged"):
        place.chain(NAME)
    assert first.previous is None


def test_a_release_needs_a_name_that_is_a_folders(tmp_path):
    for name in ("", "../x", "A", "a/b", "-a", "a" * 64, "a\n"):
        with pytest.raises(RecordsUnusable, match="no name of a release"):
            FolderRecords(tmp_path).chain(name)


def test_two_of_one_hash_talk_alike():
    assert artefact_hash(artefact(NCCL_ALGO="Ring")) == artefact_hash(artefact(NCCL_ALGO="Ring"))
    assert artefact_hash(artefact(NCCL_ALGO="Ring")) != artefact_hash(artefact(NCCL_ALGO="Tree"))


def test_differences_are_told_by_name():
    before, after = artefact(NCCL_ALGO="Ring", NCCL_A="1"), artefact(NCCL_ALGO="Tree", NCCL_B="2")
    after = replace(after, versions={"nccl": "2.29.1"}, topology_hashes=("sha256:u",))
    assert [one.in_words for one in differences(before, after)] == [
        "NCCL_ALGO: 'Ring' -> 'Tree'",
        "NCCL_A: '1' -> not set",
        "NCCL_B: not set -> '2'",
        "nccl: '2.28.9' -> '2.29.1'",
        "topology: 'sha256:t' -> 'sha256:u'",
    ]
    assert differences(before, before) == ()
