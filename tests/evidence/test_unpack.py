"""Archives: everything that can be had comes out, within bounds, and nothing is written."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import plain_bytes
from rankmuster.evidence import unpack as module
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.packed_stream import MAX_TOTAL_BYTES, Allowance
from rankmuster.evidence.unpack import MAX_MEMBER_BYTES, printable, unpack
from rankmuster.model.problem import Problem, ProblemKind

FILES = {"llm-0/logs/rank0.log": b"[rank0]: hello\n" * 50, "llm-0/flight/nccl_trace_rank_0": bytes(range(256)) * 9}


def tar(files: dict[str, bytes], style: int = tarfile.PAX_FORMAT, *extra: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=style) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return out.getvalue()


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = "/etc/passwd"
    return info


def parts(
    data: bytes, path: str = "b.bin", allowance: Allowance | None = None
) -> tuple[dict[str, bytes], list[Problem]]:
    blobs: dict[str, bytes] = {}
    problems: list[Problem] = []
    for part in unpack(Blob(path, data), allowance or Allowance()):
        if isinstance(part, Problem):
            problems.append(part)
        else:
            assert part.path not in blobs
            blobs[part.path] = part.data
    return blobs, problems


def in_archive(files: dict[str, bytes], path: str = "b.bin") -> dict[str, bytes]:
    return {f"{path}!{name}": data for name, data in files.items()}


TAR = tar(FILES)


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, zstandard.compress], ids=["tar", "tar.gz", "tar.zst"])
@pytest.mark.parametrize("style", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_archives_are_told_by_content_whatever_they_are_called(pack, style: int):
    assert parts(pack(tar(FILES, style)), "dump.txt") == (in_archive(FILES, "dump.txt"), [])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_lone_packed_file_keeps_its_path(pack):
    assert parts(pack(b"line\n" * 1000), "logs/rank3.log.gz") == ({"logs/rank3.log.gz": b"line\n" * 1000}, [])


def test_what_is_not_packed_is_itself():
    for data in (b"", b"plain", b"\x1f\x8b", os.urandom(2000)):
        assert parts(data) == ({"b.bin": data}, [])


@pytest.mark.parametrize("style", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_names_in_other_scripts(style: int):
    files = {"/".join(["deep" * 10] * 8) + "/rank_7.log": b"x", "protokoll-größe.log": b"y"}
    assert parts(tar(files, style)) == (in_archive(files), [])


def test_several_gzip_members_or_zstd_frames_are_one_file():
    assert parts(gzip.compress(b"a\n") + gzip.compress(b"b\n") + b"\0" * 9)[0] == {"b.bin": b"a\nb\n"}
    assert parts(zstandard.compress(b"a\n") + zstandard.compress(b"b\n"))[0] == {"b.bin": b"a\nb\n"}


def test_three_levels_are_unpacked_and_the_fourth_is_refused():
    inner = gzip.compress(b"deep\n")
    middle = gzip.compress(tar({"rank0.log.gz": inner}))
    outer = tar({"node-1.tgz": middle})
    assert parts(outer)[0] == {"b.bin!node-1.tgz!rank0.log.gz": b"deep\n"}
    blobs, (problem,) = parts(tar({"cluster.tar": outer}))
    assert blobs == {}
    assert (problem.kind, problem.source) == (ProblemKind.REFUSED, "b.bin!cluster.tar!node-1.tgz!rank0.log.gz")
    assert "3 deep" in problem.message


def test_names_that_climb_or_are_absolute_are_only_names():
    files = {"../../etc/passwd": b"a", "/etc/shadow": b"b"}
    assert parts(tar(files)) == (in_archive(files), [])


def test_links_and_devices_are_named_once_per_kind_and_not_followed():
    links = [special(f"link{n}", tarfile.SYMTYPE) for n in range(9)]
    data = tar(FILES, tarfile.GNU_FORMAT, *links, special("null", tarfile.CHRTYPE), special("p", tarfile.FIFOTYPE))
    blobs, problems = parts(data)
    assert blobs == in_archive(FILES)
    assert [p.kind for p in problems] == [ProblemKind.REFUSED] * 2
    assert "9 archive member(s) that are a link" in problems[0].message
    assert "link0, link1" in problems[0].message
    assert "null, p" in problems[1].message


def test_a_names_control_characters_do_not_reach_the_report():
    (path,) = parts(tar({"a\x1b[31mred\nline": b"x"}))[0]
    assert path == "b.bin!a?[31mred?line"
    assert printable("a\udcff") == "a?"


@pytest.mark.parametrize("pack", [lambda d: d, gzip.compress, zstandard.compress], ids=["tar", "tar.gz", "tar.zst"])
def test_a_truncated_archive_gives_what_is_whole_and_says_that_it_is_damaged(pack):
    noise = {**FILES, "last.bin": os.urandom(20_000)}
    packed = pack(tar(noise))
    blobs, problems = parts(packed[: int(len(packed) * 0.7)])
    assert all(noise[path.removeprefix("b.bin!")].startswith(data) for path, data in blobs.items())
    assert ProblemKind.DAMAGED in [p.kind for p in problems]
    if pack is not zstandard.compress:  # zstd hands out whole blocks of 128 KiB only
        assert blobs["b.bin!llm-0/logs/rank0.log"] == FILES["llm-0/logs/rank0.log"]


def test_a_tar_cut_exactly_between_two_members_is_damaged_too():
    (problem,) = parts(TAR[: TAR.index(b"llm-0/flight")])[1]
    assert "without its end mark" in problem.message
    assert "1 file(s)" in problem.message


def test_a_file_that_the_archive_ends_in_is_used_as_far_as_it_goes():
    blobs, problems = parts(TAR[: 512 + 100])
    assert blobs == {"b.bin!llm-0/logs/rank0.log": FILES["llm-0/logs/rank0.log"][:100]}
    assert [p.source for p in problems] == ["b.bin!llm-0/logs/rank0.log", "b.bin"]
    assert "100 of 750 bytes" in problems[0].message


def test_bytes_behind_a_packed_file_are_named():
    blobs, (problem,) = parts(gzip.compress(b"a\n") + b"not packed")
    assert blobs == {"b.bin": b"a\n"}
    assert problem.kind is ProblemKind.DAMAGED


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_is_cut_at_the_bound_and_named(pack):
    bomb = pack(bytes(MAX_MEMBER_BYTES + 5000))
    begun = time.perf_counter()
    blobs, (problem,) = parts(bomb)
    assert time.perf_counter() - begun < 10
    assert len(blobs["b.bin"]) == MAX_MEMBER_BYTES
    assert problem.kind is ProblemKind.DAMAGED
    assert "only the beginning" in problem.message


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_of_a_packed_log_that_is_too_large_both_ends_are_read(pack, monkeypatch):
    monkeypatch.setattr(plain_bytes, "MAX_LOG_BYTES", 20_000)
    monkeypatch.setattr(module, "MAX_MEMBER_BYTES", 50_000)
    lines = [b"line %06d\n" % n for n in range(10_000)]
    blobs, (problem,) = parts(pack(b"".join(lines)))
    read = blobs["b.bin"].splitlines(keepends=True)
    assert set(read) <= set(lines)
    assert (read[0], read[-1]) == (lines[0], lines[-1])
    assert problem.kind is ProblemKind.DAMAGED
    assert "the first and last" in problem.message


def test_all_archives_of_a_load_share_one_allowance():
    allowance = Allowance(bytes_left=1500)
    packed = gzip.compress(b"x" * 1000)
    assert parts(packed, allowance=allowance) == ({"b.bin": b"x" * 1000}, [])
    blobs, (problem,) = parts(packed, allowance=allowance)
    assert blobs == {"b.bin": b"x" * 500}
    assert problem.kind is ProblemKind.REFUSED
    assert f"{MAX_TOTAL_BYTES >> 20} MiB" in problem.message


def test_members_beyond_the_allowance_are_refused():
    blobs, (problem,) = parts(TAR, allowance=Allowance(members_left=1))
    assert len(blobs) == 1
    assert problem.kind is ProblemKind.REFUSED
    assert "the 1 before" in problem.message


def test_a_hundred_thousand_tiny_members_take_seconds():
    block = tar({"logs/rank0.log": b"0123456789"})[:1024]
    packed = block * 100_000 + bytes(1024)
    begun = time.perf_counter()
    count = sum(1 for _ in unpack(Blob("b", packed), Allowance()))
    assert count == 100_000
    assert time.perf_counter() - begun < 10


def test_a_header_that_claims_terabytes_costs_nothing():
    info = tarfile.TarInfo("huge")
    info.size = 2**40
    begun = time.perf_counter()
    blobs, problems = parts(info.tobuf() + b"abc")
    assert time.perf_counter() - begun < 1
    assert blobs == {"b.bin!huge": b"abc"}
    assert problems[0].kind is ProblemKind.DAMAGED


def test_an_extended_header_meant_to_hurt_a_regular_expression_does_not():
    body = b"1" * 500_000
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(body)
    begun = time.perf_counter()
    blobs, _ = parts(info.tobuf() + body + bytes(-len(body) % 512) + TAR)
    assert time.perf_counter() - begun < 1
    assert blobs == in_archive(FILES)


PACKED = (TAR, gzip.compress(TAR), zstandard.compress(TAR), gzip.compress(gzip.compress(b"x" * 99)))


@given(st.sampled_from(PACKED), st.floats(0, 1), st.floats(0, 1), st.binary(max_size=600))
@settings(max_examples=100, deadline=None)
def test_no_damage_raises_or_hangs(packed: bytes, cut: float, start: float, noise: bytes):
    head, tail = packed[: int(cut * len(packed))], packed[int(start * len(packed)) :]
    for damaged in (head, head + noise + tail, packed + noise, packed[:512] + noise + tail):
        for part in unpack(Blob("x", damaged), Allowance()):
            assert isinstance(part, (Blob, Problem))


@given(st.sampled_from(PACKED), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=5))
@settings(max_examples=100, deadline=None)
def test_no_flipped_bytes_raise(packed: bytes, flips: list[tuple[float, int]]):
    damaged = bytearray(packed)
    for place, bits in flips:
        damaged[int(place * len(packed))] ^= bits
    assert all(isinstance(part, (Blob, Problem)) for part in unpack(Blob("x", bytes(damaged)), Allowance()))


@given(st.binary(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_packing_and_unpacking_are_inverse(data: bytes):
    if module.packing_of(data) is None and not module.looks_like_tar(data[:512]):
        for packed in (gzip.compress(data), zstandard.compress(data)):
            assert parts(packed) == ({"b.bin": data}, [])
        assert parts(tar({"f": data})) == ({"b.bin!f": data}, [])
