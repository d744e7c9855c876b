"""Bundles on the node's disk: whole or not there, kept over a restart, and never filling the disk."""

from __future__ import annotations

import hashlib
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmuster.kube.agents.shelf import KEEP_SECONDS, Card, NotKept, Shelf

POD = "aaaaaaaa-0000-0000-0000-000000000001"


class Now:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        self.at += 1.0
        return self.at


@pytest.fixture
def now() -> Now:
    return Now()


def shelf(folder: Path, now: Now, *, bundles: int = 3, size: int = 1 << 20, free: int = 0) -> Shelf:
    return Shelf(folder, now, most_bundles=bundles, most_bytes=size, least_free=free)


def put(kept: Shelf, name: str, data: bytes = b"bundle", *, pod: str = POD, instance: str = "", sha: str = "") -> Card:
    digest = sha or hashlib.sha256(data).hexdigest()
    return kept.put(f"{name}.tar.zst", len(data), io.BytesIO(data).read, sha256=digest, pod_uid=pod, instance=instance)


def names(kept: Shelf) -> list[str]:
    return [card.name.removesuffix(".tar.zst") for card in kept.cards()]


def test_what_is_put_is_there_also_for_the_next_life(tmp_path: Path, now: Now) -> None:
    first = shelf(tmp_path / "b", now)
    card = put(first, "one", b"x" * 1000, instance="ns.llm.0")
    put(first, "two", pod="other")
    assert [one.name for one in first.cards(POD)] == ["one.tar.zst"]
    again = shelf(tmp_path / "b", now)
    assert again.cards() == first.cards()
    handle = again.open("one.tar.zst")
    assert handle is not None
    with handle:
        assert handle.read() == b"x" * 1000
    assert (card.bytes, card.instance) == (1000, "ns.llm.0")
    assert {path.name for path in (tmp_path / "b").iterdir()} == {
        f"{name}.tar.zst{end}" for name in ("one", "two") for end in ("", ".json")
    }


@pytest.mark.parametrize(
    "name", ["../one", "a/b", ".hidden", "", "a" * 300, "one\n", "%2e%2e", "ünï", "one.tar.zst.json"]
)
def test_a_name_leads_nowhere_else(tmp_path: Path, now: Now, name: str) -> None:
    kept = shelf(tmp_path / "b", now)
    with pytest.raises(NotKept) as refused:
        kept.put(f"{name}.tar.zst" if "json" not in name else name, 1, io.BytesIO(b"x").read, sha256="0", pod_uid=POD)
    assert refused.value.status == 400
    assert kept.open(f"../b/{name}") is None
    assert list(tmp_path.iterdir()) == [tmp_path / "b"]


def test_other_content_than_promised_is_not_kept_and_the_same_is_kept_once(tmp_path: Path, now: Now) -> None:
    kept = shelf(tmp_path / "b", now)
    with pytest.raises(NotKept) as wrong:
        put(kept, "one", sha="0" * 64)
    assert wrong.value.status == 422
    assert list((tmp_path / "b").iterdir()) == []
    first = put(kept, "one")
    assert put(kept, "one") == first
    with pytest.raises(NotKept) as other:
        put(kept, "one", b"other")
    assert other.value.status == 409
    for pod in ("", "a b", "../x"):
        with pytest.raises(NotKept):
            put(kept, "two", pod=pod)
    with pytest.raises(NotKept):
        put(kept, "empty", b"")


def test_room_is_made_of_what_is_uploaded_then_of_the_oldest_and_not_of_the_newest_of_an_instance(
    tmp_path: Path, now: Now
) -> None:
    kept = shelf(tmp_path / "b", now)
    for name, instance in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        put(kept, name, instance=instance)
    kept.uploaded("b1.tar.zst", "s3://x/b1")
    put(kept, "c1", instance="c")  # a1 is the oldest, and a2 and b1 are the newest of theirs
    assert names(kept) == ["a2", "b1", "c1"]
    put(kept, "a3", instance="a")  # a2 is followed by this one
    assert names(kept) == ["b1", "c1", "a3"]
    with pytest.raises(NotKept) as full:
        put(kept, "d1", instance="d")
    assert full.value.status == 507
    assert "7 days" in str(full.value)
    now.at += KEEP_SECONDS + 10
    put(kept, "d1", instance="d")  # of those that are old the one with a copy elsewhere
    assert names(kept) == ["c1", "a3", "d1"]


def test_bytes_count_too_and_what_is_uploaded_stays_known(tmp_path: Path, now: Now) -> None:
    kept = shelf(tmp_path / "b", now, bundles=10, size=2500)
    put(kept, "a1", b"x" * 1000, instance="a")
    put(kept, "a2", b"x" * 1000, instance="a")
    kept.uploaded("a2.tar.zst", "s3://x/")
    kept.uploaded("gone.tar.zst", "s3://x/")
    put(kept, "a3", b"x" * 1000, instance="a")
    assert names(kept) == ["a1", "a3"]
    with pytest.raises(NotKept):
        put(kept, "huge", b"x" * 3000, instance="z")
    assert names(kept) == ["a1", "a3"]  # nothing was given up in vain
    kept.uploaded("a3.tar.zst", "s3://x/a3")
    assert [card.uploaded for card in shelf(tmp_path / "b", now).cards()] == ["", "s3://x/a3"]


def test_nothing_is_given_up_for_what_does_not_come_whole(tmp_path: Path, now: Now) -> None:
    kept = shelf(tmp_path / "b", now, bundles=1)
    put(kept, "a1", instance="a")
    with pytest.raises(NotKept):
        put(kept, "a2", instance="a", sha="0" * 64)
    assert names(kept) == ["a1"]
    put(kept, "a3", instance="a")
    assert names(kept) == ["a3"]


def test_a_crash_leaves_nothing_half(tmp_path: Path, now: Now) -> None:
    kept = shelf(tmp_path / "b", now)
    put(kept, "whole")
    folder = tmp_path / "b"
    (folder / ".0123.part").write_bytes(b"half")
    (folder / "without-card.tar.zst").write_bytes(b"no card")
    put(kept, "spoilt")
    (folder / "spoilt.tar.zst.json").write_text("{")
    put(kept, "cut", b"x" * 100)
    (folder / "cut.tar.zst").write_bytes(b"x" * 50)
    (folder / "notes.txt").write_text("of somebody else")
    again = shelf(folder, now)
    assert names(again) == ["whole"]
    assert (folder / "notes.txt").exists()
    assert not (folder / ".0123.part").exists()
    assert not (folder / "without-card.tar.zst").exists()


def test_a_sender_that_breaks_off_leaves_nothing(tmp_path: Path, now: Now) -> None:
    kept = shelf(tmp_path / "b", now)

    def broken(_: int) -> bytes:
        raise ConnectionError("gone")

    with pytest.raises(NotKept):
        kept.put("one.tar.zst", 10, broken, sha256="0", pod_uid=POD)
    assert list((tmp_path / "b").iterdir()) == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_what_was_there_stays(tiny: Path, now: Now) -> None:
    kept = shelf(tiny / "b", now, bundles=100, size=1 << 30)
    put(kept, "one", b"x" * 100_000, instance="a")
    with pytest.raises(NotKept) as full:
        put(kept, "two", b"y" * 200_000, instance="b")
    assert full.value.status == 507
    assert names(shelf(tiny / "b", now)) == ["one"]
    put(kept, "three", b"y" * 50_000, instance="b")
