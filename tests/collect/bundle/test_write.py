"""A bundle is whole or not there; what was collected before something went wrong is kept."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from making import make

from rankmuster.collect.bundle import manifest, write
from rankmuster.collect.bundle.verify import Wrong, verify
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.sink import Sink, SinkFull
from rankmuster.evidence.bundle import load
from rankmuster.model.instance import ManifestFacts

AROUND = manifest.Circumstances("0.1.0", "n1", 1.0, 2.0, 20.0)
FILES = {"ras/1795986479.1-0.txt": b"reply\n" * 100, "flight/nccl_trace_rank_1": b"\x80dump", "logs/a.log": b"line\n"}


def test_a_folder_appears_whole_read_only_and_verified(tmp_path: Path) -> None:
    path = make(tmp_path / "b", FILES)
    assert verify(path).ok
    assert os.listdir(tmp_path) == ["b"]
    files = [file for file in path.rglob("*") if file.is_file()]
    assert len(files) == 4
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o400 for file in files)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert load(path).of(ManifestFacts)[0].ranks == {"flight/nccl_trace_rank_1": 1}


def test_an_archive_has_the_same_bytes_each_time_and_is_read_as_it_is(tmp_path: Path) -> None:
    first = make(tmp_path / "a.tar.zst", FILES)
    second = make(tmp_path / "b.tar.zst", dict(reversed(FILES.items())))
    assert first.read_bytes() == second.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.tar.zst", "b.tar.zst"]
    assert verify(first).ok
    assert load(first).of(ManifestFacts)


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_what_exists_is_refused_before_anything_is_collected(tmp_path: Path, name: str) -> None:
    for blocker in (tmp_path / "dir" / name, tmp_path / "link" / name):
        blocker.parent.mkdir()
    (tmp_path / "dir" / name).mkdir()
    (tmp_path / "link" / name).symlink_to(tmp_path / "nowhere")
    for place in ("dir", "link"):
        with pytest.raises(write.OutputRefused, match="exists"):
            write.open_staging(tmp_path / place / name)
        assert os.listdir(tmp_path / place) == [name]


@pytest.mark.parametrize("output", ["/proc/nowhere/b", "/dev/null/b", "/", "x" * 250])
def test_where_nothing_can_be_written_it_says_so(output: str) -> None:
    with pytest.raises(write.OutputRefused):
        write.open_staging(Path(output))


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_an_output_that_appears_meanwhile_is_not_written_over(tmp_path: Path, name: str) -> None:
    staging = write.open_staging(tmp_path / name)
    store = staging.store()
    store.sink("ras").put("ras/a", b"x")
    (tmp_path / name).mkdir()
    if name == "b":
        with pytest.raises(write.NotWritten, match=r"diagnose") as caught:
            staging.seal(manifest.build(store.close(), (), AROUND))
        assert (caught.value.part / "ras" / "a").read_bytes() == b"x"
        assert not verify(caught.value.part).ok
    else:
        sealed = staging.seal(manifest.build(store.close(), (), AROUND))
        assert verify(sealed.path).ok
        assert sealed.notes
    assert os.listdir(tmp_path / name) == []


def test_a_killed_collection_leaves_a_part_that_does_not_verify_and_can_be_read(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path; from rankmuster.collect.bundle import write\n"
        "staging = write.open_staging(Path(sys.argv[1])); store = staging.store()\n"
        "store.sink('logs').put('logs/rank0.log', b'n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\\n')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], check=False)
    assert ended.returncode == -signal.SIGKILL
    (part,) = tmp_path.iterdir()
    result = verify(part)
    assert [finding.wrong for finding in result.findings] == [Wrong.NO_MANIFEST]
    assert "killed" in result.findings[0].message
    assert load(part).by_type


FULL = """
import os, resource, signal, sys
from pathlib import Path
from rankmuster.collect.bundle import manifest, write
from rankmuster.collect.sink import SinkFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
staging = write.open_staging(Path(sys.argv[1]), reserve=100_000)
store = staging.store()
sink = store.sink("logs")
sink.put("logs/small.log", b"x" * 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    sink.put("logs/large.log", os.urandom(1_000_000))
except SinkFull as error:
    print("full:", error)
around = manifest.Circumstances("0", "n", 1.0, 2.0, 20.0, notes=("large.log did not fit",))
sealed = staging.seal(manifest.build(store.close(), (), around))
print(sealed.path)
"""


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_what_fits_is_kept_when_a_file_does_not(tmp_path: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / name)], capture_output=True, text=True, check=True
    )
    assert "full: cannot write logs/large.log" in done.stdout
    assert verify(tmp_path / name).ok
    assert os.listdir(tmp_path) == [name]


def fill(sink: Sink, size: int) -> None:
    """Puts files until there is no room for another."""
    try:
        for number in range(200):
            sink.put(f"logs/{number}.log", os.urandom(size))
    except SinkFull:
        return
    raise AssertionError("the disk was never full")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_costs_what_did_not_fit_and_never_the_bundle() -> None:
    with tempfile.TemporaryDirectory() as mount:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "none", mount], capture_output=True, check=False
        )
        if made.returncode:
            pytest.skip("mounting is not allowed here")
        try:
            staging = write.open_staging(Path(mount) / "b")
            store = staging.store()
            sink = store.sink("logs")
            fill(sink, 100_000)
            pieces = store.close()
            assert pieces
            sealed = staging.seal(manifest.build(pieces, (), AROUND))
            assert verify(sealed.path).ok
            assert verify(sealed.path).files == len(pieces)

            staging = write.open_staging(Path(mount) / "c.tar.zst", reserve=1 << 16)
            store = staging.store()
            sink = store.sink("logs")
            fill(sink, 20_000)
            sealed = staging.seal(manifest.build(store.close(), (), AROUND))
            assert sealed.path == Path(mount) / "c"  # no room for both: the folder is the bundle
            assert "could not be packed" in sealed.notes[0]
            assert verify(sealed.path).ok
            assert sorted(os.listdir(mount)) == ["b", "c"]
            with pytest.raises(write.OutputRefused):
                write.open_staging(Path(mount) / "d", reserve=1 << 30)
        finally:
            subprocess.run(["umount", mount], check=True)


def test_the_manifest_says_what_is_really_there(tmp_path: Path) -> None:
    staging = write.open_staging(tmp_path / "b")
    store = staging.store()
    for name in ("kept", "gone", "cut"):
        store.sink("ras").put(f"ras/{name}", b"0123456789")
    document = manifest.build(store.close(), (), AROUND)
    (staging.folder / "ras" / "gone").unlink()
    (staging.folder / "ras" / "cut").write_bytes(b"012")
    (staging.folder / "ras" / "late").write_bytes(b"unlisted")
    (staging.folder / "ras" / ".half.part").write_bytes(b"half")
    sealed = staging.seal(document)
    assert verify(sealed.path).ok
    read = manifest.parse((sealed.path / "manifest.json").read_bytes())
    assert sorted(read.files) == ["ras/cut", "ras/kept", "ras/late"]
    assert len(read.document["left_out"]) == 2


def test_a_deadline_that_has_passed_ends_the_waiting_for_the_disk(tmp_path: Path) -> None:
    staging = write.open_staging(tmp_path / "b")
    store = staging.store()
    store.sink("ras").put("ras/a", b"x")
    sealed = staging.seal(manifest.build(store.close(), (), AROUND), Deadline.after(0.0))
    assert verify(sealed.path).ok
    assert "power failure" in sealed.notes[0]


def test_names_that_differ_only_by_case_are_kept_apart(tmp_path: Path) -> None:
    path = make(tmp_path / "b", {"logs/Worker.log": b"one", "logs/worker.log": b"two"})
    assert sorted(os.listdir(path / "logs")) == ["Worker.log", "worker-2.log"]
    assert verify(path).ok


def test_an_abandoned_collection_leaves_nothing(tmp_path: Path) -> None:
    staging = write.open_staging(tmp_path / "b.tar.zst")
    staging.store().sink("ras").put("ras/a", b"x")
    staging.abandon()
    assert os.listdir(tmp_path) == []
