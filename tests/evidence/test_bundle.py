"""From a folder, an archive or a file to everything that it says, and everything that is wrong with it."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from rankmuster.evidence import bundle
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.folder import EvidenceEmpty, EvidenceMissing, EvidenceUnreadable
from rankmuster.model.engine import EnginePage
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ManifestFacts
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

PAGE = b'vllm:num_requests_running{engine="0",model_name="lab"} 16.0\n'
INSTANCE = json.dumps({"instance": "llm-0", "world_size": 1, "processes": [{"rank": 0, "pid": 7}]}).encode()
SAMPLE = b'{"time": 1795986351.0, "host": "10.77.0.1", "gpu": 0, "sm_util_percent": 1}\n'
FILES = {"engine/1795986477.893.prom": PAGE, "instance.json": INSTANCE, "gpu-counters.jsonl": SAMPLE}


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as packed:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return out.getvalue()


def reader(name: str, kind: ReaderKind, word: bytes, known: int, *problems: Problem) -> Reader:
    def read(blob: Blob) -> Reading:
        return Reading((name,) if known else (), problems, known)

    return Reader(name, Plane.ENGINE, kind, lambda blob: word in blob.data, read)


def test_a_folder_is_read_by_content_and_grouped_by_type(tmp_path: Path):
    evidence = bundle.load(write(tmp_path, FILES))
    assert [p.streams[0].running for p in evidence.of(EnginePage)] == [16.0]
    assert [f.instance for f in evidence.of(InstanceFacts)] == ["llm-0"]
    assert [t.host for t in evidence.of(GpuTrack)] == ["10.77.0.1"]
    assert evidence.of(ManifestFacts) == ()
    assert evidence.problems == ()
    assert [(s.path, s.size, s.readers) for s in evidence.sources] == [
        ("engine/1795986477.893.prom", len(PAGE), ("engine page",)),
        ("gpu-counters.jsonl", len(SAMPLE), ("gpu samples",)),
        ("instance.json", len(INSTANCE), ("instance.json",)),
    ]


def test_an_archive_of_a_folder_says_the_same_with_other_paths(tmp_path: Path):
    path = tmp_path / "incident.tgz"
    path.write_bytes(archive(FILES))
    evidence = bundle.load(path)
    (page,) = evidence.of(EnginePage)
    assert page.source == "incident.tgz!engine/1795986477.893.prom"
    assert page.time is not None
    assert page.time.seconds == 1795986477.893
    assert len(evidence.of(InstanceFacts)) == len(evidence.of(GpuTrack)) == 1


def test_names_decide_nothing(tmp_path: Path):
    evidence = bundle.load(write(tmp_path, {"a.bin": PAGE, "b.log": INSTANCE, "flight/nccl_trace_rank_0": SAMPLE}))
    assert len(evidence.of(EnginePage)) == len(evidence.of(InstanceFacts)) == len(evidence.of(GpuTrack)) == 1


def test_what_no_reader_knows_and_what_is_empty_is_named(tmp_path: Path):
    files = {**FILES, "notes": b"call Ann\n", "core": b"\x7fELF\1\2\3", "empty.log": b"", "x.zip": b"PK\x03\x04zz"}
    evidence = bundle.load(write(tmp_path, files))
    assert {(p.kind, p.source, p.message) for p in evidence.problems} == {
        (ProblemKind.UNREAD, "notes", "no line of it is known to a reader; it begins 'call Ann'"),
        (ProblemKind.UNREAD, "core", "no reader knows it: a program or core dump"),
        (ProblemKind.UNREAD, "empty.log", "the file is empty"),
        (ProblemKind.UNREAD, "x.zip", "no reader knows it: a zip archive; unpack it first"),
    }
    assert [s.readers for s in evidence.sources if s.path == "notes"] == [()]


def test_a_thousand_unknown_files_are_counted_not_listed():
    evidence = bundle.gather(Blob(f"f{n}", b"?") for n in range(1000))
    assert len(evidence.problems) == bundle.MAX_NAMED_UNREAD + 1
    assert evidence.problems[-1].message.startswith(f"{1000 - bundle.MAX_NAMED_UNREAD} more files")
    assert len(evidence.sources) == 1000


def test_a_document_belongs_to_the_first_reader_that_makes_something_of_it():
    readers = (
        reader("blank", ReaderKind.DOCUMENT, b"x", 0, Problem(ProblemKind.DAMAGED, "f", "not mine")),
        reader("first", ReaderKind.DOCUMENT, b"x", 1),
        reader("second", ReaderKind.DOCUMENT, b"x", 1),
        reader("lines", ReaderKind.LINES, b"x", 1),
    )
    evidence = bundle.gather([Blob("f", b"x")], readers)
    assert evidence.of(str) == ("first",)
    assert evidence.problems == ()


def test_text_is_shared_by_all_readers_of_lines():
    readers = (reader("a", ReaderKind.LINES, b"x", 2), reader("b", ReaderKind.LINES, b"y", 1))
    (source,) = bundle.gather([Blob("f", b"x y")], readers).sources
    assert source.readers == ("a", "b")


def test_a_reader_that_recognised_a_file_but_could_not_use_it_explains_why():
    why = Problem(ProblemKind.DAMAGED, "f", "cut in its first entry")
    assert bundle.gather([Blob("f", b"x")], (reader("d", ReaderKind.DOCUMENT, b"x", 0, why),)).problems == (why,)


def test_log_lines_are_not_looked_for_in_core_dumps():
    lines = reader("lines", ReaderKind.LINES, b"NCCL WARN", 1)
    dump = b"\x7fELF" + bytes(range(256)) * 100 + b"NCCL WARN" + bytes(range(256)) * 100
    assert bundle.gather([Blob("core", dump)], (lines,)).of(str) == ()


@pytest.mark.parametrize("kind", list(ReaderKind))
@pytest.mark.parametrize("error", [ValueError("odd"), RecursionError("deep"), MemoryError()])
def test_a_reader_that_fails_costs_its_own_reading_and_is_named(kind: ReaderKind, error: Exception):
    def fail(blob: Blob) -> Reading:
        raise error

    defect = Reader("defect", Plane.RAS, kind, lambda blob: True, fail)
    evidence = bundle.gather([Blob("f", b"x")], (defect, reader("lines", ReaderKind.LINES, b"x", 1)))
    assert evidence.of(str) == ("lines",)
    (problem,) = evidence.problems
    assert (problem.kind, problem.source) == (ProblemKind.DAMAGED, "f")
    assert "'defect'" in problem.message
    assert type(error).__name__ in problem.message


def test_a_file_that_is_not_the_one_of_the_manifest_is_read_and_doubted(tmp_path: Path):
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    manifest = json.dumps({"schema": "rankmuster.bundle/1", "digests": digests, "ranks": {"x": 1}}).encode()
    root = write(tmp_path, {**FILES, "manifest.json": manifest})
    assert bundle.load(root).problems == ()
    (root / "instance.json").write_bytes(INSTANCE + b"\n")
    evidence = bundle.load(root)
    assert [(p.kind, p.source) for p in evidence.problems] == [(ProblemKind.CORRUPT, "instance.json")]
    assert len(evidence.of(InstanceFacts)) == 1
    assert evidence.of(ManifestFacts)[0].ranks == {"x": 1}


def test_the_same_folder_gives_the_same_evidence(tmp_path: Path):
    root = write(tmp_path, {**FILES, "notes": b"call Ann\n"})
    first, second = bundle.load(root), bundle.load(root)
    assert (first.sources, first.problems) == (second.sources, second.problems)
    assert first.of(EnginePage) == second.of(EnginePage)


def test_nothing_to_read_is_an_error_not_a_verdict(tmp_path: Path):
    with pytest.raises(EvidenceEmpty):
        bundle.load(tmp_path)
    with pytest.raises(EvidenceMissing):
        bundle.load(tmp_path / "no")


def test_a_stored_zip_is_not_read_between_its_headers(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "case.zip", "w", zipfile.ZIP_STORED) as packed:
        packed.writestr("gpu-counters.jsonl", SAMPLE * 50)
    write(tmp_path, {"instance.json": INSTANCE})
    evidence = bundle.load(tmp_path)
    assert evidence.of(GpuTrack) == ()
    assert any("zip archive; unpack it first" in problem.message for problem in evidence.problems)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PK\x03\x04" + bytes(100), "a zip archive; unpack it first"),
        (b"\x1f\x8b\x08\0\0\0", "packed data is damaged"),
        (b"\x80\x02cos\nsystem\n(S'true'\ntR.", "a pickle that is not plain data, refused"),
        (b"Dear diary,\n", "no line of it is known to a reader; it begins 'Dear diary,'"),
    ],
)
def test_a_single_file_of_no_use_is_no_evidence(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    with pytest.raises(EvidenceUnreadable, match=re.escape(reason)):
        bundle.load(path)


def test_a_log_in_utf_16_is_read_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "gpu-counters.jsonl").write_bytes(SAMPLE.decode().encode("utf-16"))
    assert len(bundle.load(tmp_path).of(GpuTrack)) == 1
