"""Every change of a bundle is found, in a folder and in an archive, and hostile ones cost nothing but an answer."""

from __future__ import annotations

import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from making import make, packed, sealed

from rankmuster.collect.bundle import contents
from rankmuster.collect.bundle.contents import BundleUnreadable
from rankmuster.collect.bundle.verify import Wrong, verify

FILES = {"ras/a.txt": b"reply", "logs/b.log": b"line\n" * 1000}


def wrongs(path: Path) -> set[tuple[Wrong, str]]:
    return {(finding.wrong, finding.path) for finding in verify(path).findings}


def editable(path: Path) -> Path:
    for file in path.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
    return path


CHANGES: dict[str, tuple[Callable[[Path], object], set[tuple[Wrong, str]]]] = {
    "a byte": (lambda b: (b / "ras/a.txt").write_bytes(b"Reply"), {(Wrong.DIGEST, "ras/a.txt")}),
    "a size": (lambda b: (b / "ras/a.txt").write_bytes(b"rep"), {(Wrong.SIZE, "ras/a.txt")}),
    "a file gone": (lambda b: (b / "ras/a.txt").unlink(), {(Wrong.MISSING, "ras/a.txt")}),
    "a file more": (lambda b: (b / "ras/x").write_bytes(b""), {(Wrong.EXTRA, "ras/x")}),
    "another case": (
        lambda b: (b / "ras/A.txt").write_bytes(b"reply"),
        {(Wrong.EXTRA, "ras/A.txt"), (Wrong.TWICE, "ras/a.txt")},
    ),
    "a link": (
        lambda b: ((b / "ras/a.txt").unlink(), (b / "ras/a.txt").symlink_to("/etc/hostname")),
        {(Wrong.NOT_A_FILE, "ras/a.txt"), (Wrong.MISSING, "ras/a.txt")},
    ),
    "a linked folder": (lambda b: (b / "etc").symlink_to("/etc"), {(Wrong.NOT_A_FILE, "etc")}),
    "a pipe": (lambda b: os.mkfifo(b / "pipe"), {(Wrong.NOT_A_FILE, "pipe")}),
    "the manifest": (
        lambda b: (b / "manifest.json").write_bytes((b / "manifest.json").read_bytes().replace(b"n1", b"n2")),
        {(Wrong.SEAL, "manifest.json")},
    ),
    "half a manifest": (
        lambda b: (b / "manifest.json").write_bytes((b / "manifest.json").read_bytes()[:200]),
        {(Wrong.MANIFEST, "manifest.json")},
    ),
    "no manifest": (lambda b: (b / "manifest.json").unlink(), {(Wrong.NO_MANIFEST, "")}),
    "a name that acts": (lambda b: (b / "ras" / "\x1b[2J").write_bytes(b""), {(Wrong.NAME, "ras/\x1b[2J")}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_a_folder_is_found(tmp_path: Path, change: str) -> None:
    path = editable(make(tmp_path / "b", FILES))
    act, expected = CHANGES[change]
    act(path)
    assert wrongs(path) == expected


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        (("ras/\u00e9", "ras/e\u0301"), Wrong.TWICE),
        (("ras/a", "ras/a."), Wrong.TWICE),
        (("ras", "ras/a"), Wrong.NAME),
        (("ras/a", "RAS"), Wrong.NAME),
        (("ras/a:hidden", "b"), Wrong.MANIFEST),
    ],
)
def test_files_that_some_disk_cannot_hold_beside_each_other_are_found(
    tmp_path: Path, names: tuple[str, str], wrong: Wrong
) -> None:
    files = dict.fromkeys(names, b"x")
    path = tmp_path / "b.tar.zst"
    path.write_bytes(packed([("manifest.json", sealed(files)), *files.items()]))
    assert {found for found, _ in wrongs(path)} >= {wrong}


def test_an_empty_folder_more_is_no_change(tmp_path: Path) -> None:
    path = make(tmp_path / "b", FILES)
    (path / "empty").mkdir()
    assert verify(path).ok


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info, b""


MANIFEST = ("manifest.json", sealed(FILES))
BOTH = [("ras/a.txt", FILES["ras/a.txt"]), ("logs/b.log", FILES["logs/b.log"])]

ARCHIVES: dict[str, tuple[bytes, set[tuple[Wrong, str]]]] = {
    "whole": (packed([MANIFEST, *BOTH]), set()),
    "manifest last": (packed([*BOTH, MANIFEST]), set()),
    "as tar writes a folder": (packed([(f"./{name}", data) for name, data in [MANIFEST, *BOTH]]), set()),
    "a byte": (packed([MANIFEST, BOTH[1], ("ras/a.txt", b"Reply")]), {(Wrong.DIGEST, "ras/a.txt")}),
    "missing": (packed([MANIFEST, BOTH[1]]), {(Wrong.MISSING, "ras/a.txt")}),
    "extra": (packed([MANIFEST, *BOTH, ("x", b"")]), {(Wrong.EXTRA, "x")}),
    "twice": (packed([MANIFEST, *BOTH, BOTH[0]]), {(Wrong.TWICE, "ras/a.txt")}),
    "two manifests": (packed([MANIFEST, *BOTH, ("manifest.json", b"{}")]), {(Wrong.TWICE, "manifest.json")}),
    "climbing": (packed([MANIFEST, *BOTH, ("../../etc/x", b"x")]), {(Wrong.NAME, "../../etc/x")}),
    "absolute": (packed([MANIFEST, *BOTH, ("/etc/x", b"x")]), {(Wrong.NAME, "/etc/x")}),
    "a symbolic link": (
        packed([MANIFEST, *BOTH, special("s", tarfile.SYMTYPE, "/etc/shadow")]),
        {(Wrong.NOT_A_FILE, "s")},
    ),
    "a hard link": (packed([MANIFEST, *BOTH, special("h", tarfile.LNKTYPE, "ras/a.txt")]), {(Wrong.NOT_A_FILE, "h")}),
    "a device": (packed([MANIFEST, *BOTH, special("d", tarfile.CHRTYPE)]), {(Wrong.NOT_A_FILE, "d")}),
    "no manifest": (packed(BOTH), {(Wrong.NO_MANIFEST, "")}),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_change_of_an_archive_is_found(tmp_path: Path, name: str) -> None:
    data, expected = ARCHIVES[name]
    path = tmp_path / "b.tar.zst"
    path.write_bytes(data)
    found = wrongs(path)
    assert found == expected
    assert verify(path).ok == (not expected)
    assert os.listdir(tmp_path) == ["b.tar.zst"]  # nothing is unpacked


def test_an_archive_that_was_cut_is_damaged_and_never_whole(tmp_path: Path) -> None:
    files = {"a": random.Random(1).randbytes(600_000), "b": random.Random(2).randbytes(600_000)}
    whole = packed([("manifest.json", sealed(files)), *files.items()])
    path = tmp_path / "b.tar.zst"
    for length in range(1, len(whole), len(whole) // 23):
        path.write_bytes(whole[:length])
        try:
            assert (Wrong.DAMAGED, "") in wrongs(path)
        except BundleUnreadable:
            assert length < 140_000  # not even one block of zstd


def test_what_follows_the_archives_end_is_found(tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, data in [MANIFEST, *BOTH]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    path = tmp_path / "b.tar.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(raw.getvalue() + b"hidden"))
    assert wrongs(path) == {(Wrong.DAMAGED, "")}
    path.write_bytes(packed([MANIFEST, *BOTH]) + b"hidden")
    assert wrongs(path) == {(Wrong.DAMAGED, "")}


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_BYTES", 64 << 20)
    path = tmp_path / "b.tar.zst"
    path.write_bytes(packed([MANIFEST, *BOTH, ("zeros", bytes(256 << 20))]))
    assert path.stat().st_size < 100_000
    assert (Wrong.TOO_MUCH, "") in wrongs(path)


def test_a_manifest_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    path.write_bytes(packed([("manifest.json", bytes(40 << 20)), *BOTH]))
    assert (Wrong.TOO_MUCH, "") in wrongs(path)
    assert not verify(path).ok


def test_a_manifest_that_lies_about_sizes_is_found_out(tmp_path: Path) -> None:
    lying = sealed(FILES).replace(b'"size": 5,', b'"size": 1125899906842624,')
    path = tmp_path / "b.tar.zst"
    path.write_bytes(packed([("manifest.json", lying), *BOTH]))
    assert wrongs(path) == {(Wrong.SEAL, "manifest.json"), (Wrong.SIZE, "ras/a.txt")}


@pytest.mark.parametrize(
    "content", [b"", b"text\n", b"PK\x03\x04", zstandard.ZstdCompressor().compress(b"no tar"), b"\x28\xb5\x2f\xfd"]
)
def test_what_is_no_archive_cannot_be_looked_at(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.tar.zst"
    path.write_bytes(content)
    with pytest.raises(BundleUnreadable, match="no archive of a bundle"):
        verify(path)


def test_what_is_not_there_cannot_be_looked_at(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path / "pipe", tmp_path / "pipe" / "x", Path("a\0b")):
        with pytest.raises(BundleUnreadable):
            verify(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_is_forbidden_cannot_be_looked_at(tmp_path: Path) -> None:
    path = make(tmp_path / "b", FILES)
    path.chmod(0)
    try:
        with pytest.raises(BundleUnreadable, match="Permission denied"):
            verify(path)
    finally:
        path.chmod(0o700)


def test_another_schema_cannot_be_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    path.write_bytes(packed([("manifest.json", sealed(FILES, schema="rankmuster.bundle/2")), *BOTH]))
    with pytest.raises(BundleUnreadable, match="Use the rankmuster that wrote it"):
        verify(path)


def test_a_bundle_of_next_year_verifies(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    manifest = ("manifest.json", sealed(FILES, schema="rankmuster.bundle/1.7", planes={"new": [1, 2]}))
    path.write_bytes(packed([manifest, *BOTH]))
    assert verify(path).ok
