"""A bundle is copied whole or not, never over anything, never past its deadline, and no credential is told."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from making import make

from rankmuster.collect.bundle import upload_worker
from rankmuster.collect.bundle.upload import UploadFailed, redact, upload
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.deadline import Deadline

FILES = {"ras/a.txt": b"reply", "logs/b.log": b"line\n" * 1000}
SECRET = "planted-store-secret"  # planted
needs_fsspec = pytest.mark.skipif(importlib.util.find_spec("fsspec") is None, reason="fsspec is an extra")
needs_s3 = pytest.mark.skipif(
    importlib.util.find_spec("s3fs") is None or importlib.util.find_spec("moto") is None,
    reason="s3fs and moto's server are extras",
)


def soon() -> Deadline:
    return Deadline.after(60.0)


@needs_fsspec
@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_a_bundle_is_copied_and_its_copy_verifies(name: str, tmp_path: Path) -> None:
    path = make(tmp_path / name, FILES)
    done = upload(path, f"file://{tmp_path}/far/away/", soon())
    copy = tmp_path / "far" / "away" / name
    assert verify(copy).ok
    assert done.url == f"file://{tmp_path}/far/away/{name}"
    assert done.files == (3 if name == "b" else 1)
    assert done.checked == "sha256"
    assert list((tmp_path / "far").rglob("*.part")) == []
    with pytest.raises(UploadFailed, match=r"exists already.*the bundle itself is safe"):
        upload(path, f"file://{tmp_path}/far/away/{name}", soon())
    assert verify(path).ok


@needs_fsspec
def test_a_store_of_whole_objects_gets_the_manifest_last(tmp_path: Path) -> None:
    import fsspec

    path = make(tmp_path / "b", FILES)
    answer = upload_worker.put(path, "memory://bucket/b")
    store = fsspec.filesystem("memory")
    assert answer["files"] == 3
    order = sorted(store.find("/bucket/b"), key=lambda name: store.created(name))
    assert order[-1].endswith("manifest.json")
    with pytest.raises(FileExistsError):
        upload_worker.put(path, "memory://bucket/b")
    store.rm("/bucket", recursive=True)


def test_without_the_library_it_names_the_command_that_installs_it(tmp_path: Path) -> None:
    path = make(tmp_path / "b.tar.zst", FILES)
    (tmp_path / "fsspec.py").write_text("raise ImportError('No module named fsspec')\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(UploadFailed, match=r"pip install 'rankmuster\[s3\]'"):
        upload(path, "file:///nowhere/", soon(), environ=environ)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "no URL of a store"),
        ("/a/path", "no URL of a store"),
        ("s3://", "no URL of a store"),
        ("simplecache::s3://b/k", "no URL of a store"),
        (f"s3://key:{SECRET}@bucket/k", "credentials in the environment"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(url: str, told: str, tmp_path: Path) -> None:
    path = make(tmp_path / "b.tar.zst", FILES)
    with pytest.raises(UploadFailed, match=told) as caught:
        upload(path, url, soon())
    assert SECRET not in str(caught.value)


def test_what_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(UploadFailed, match="does not exist"):
        upload(tmp_path / "b", "file:///nowhere/", soon())


@needs_fsspec
def test_a_failing_store_tells_no_credential(tmp_path: Path) -> None:
    path = make(tmp_path / "b.tar.zst", FILES)
    environ = {**os.environ, "STORE_SECRET_KEY": SECRET}
    with pytest.raises(UploadFailed, match="the bundle itself is safe") as caught:
        upload(path, f"file:///proc/{SECRET}/x/", soon(), environ=environ)
    assert SECRET not in str(caught.value).split("(", 1)[1]


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert redact("s3://me:pw@b/k?X-Amz-Signature=abc") == "s3://***@b/k"


@pytest.fixture
def silent() -> Iterator[int]:
    """A server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    accepted.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        for connection in accepted:
            connection.close()


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real S3 API server with a bucket; gives the environment that leads to it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    environ = credentials(port)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                time.sleep(0.05)
        code = "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"
        subprocess.run([sys.executable, "-c", code], env=environ, check=True, timeout=30)
        yield environ
    finally:
        server.kill()
        server.wait()


def credentials(port: int) -> dict[str, str]:
    return {
        **os.environ,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "planted-access-id",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@needs_s3
@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_a_bundle_goes_to_s3_and_comes_back_whole(name: str, s3: dict[str, str], tmp_path: Path) -> None:
    path = make(tmp_path / name, FILES)
    done = upload(path, "s3://bucket/incidents/", soon(), environ=s3)
    assert done.url == f"s3://bucket/incidents/{name}"
    assert done.checked == "sha256"
    back = tmp_path / "back"
    code = f"import s3fs; s3fs.S3FileSystem().get('bucket/incidents/{name}', {str(back)!r}, recursive=True)"
    subprocess.run([sys.executable, "-c", code], env=s3, check=True, timeout=60)
    assert verify(back).ok
    with pytest.raises(UploadFailed, match="exists already"):
        upload(path, "s3://bucket/incidents/", soon(), environ=s3)
    with pytest.raises(UploadFailed, match="the bundle itself is safe") as caught:
        upload(path, "s3://no-such-bucket/x/", soon(), environ=s3)
    assert SECRET not in str(caught.value)


@needs_s3
def test_a_server_that_hangs_is_left_at_the_deadline(silent: int, tmp_path: Path) -> None:
    path = make(tmp_path / "b.tar.zst", FILES)
    begun = time.monotonic()
    with pytest.raises(UploadFailed, match=r"not done by its deadline.*safe") as caught:
        upload(path, "s3://bucket/x/", Deadline.after(2.0), environ=credentials(silent))
    assert time.monotonic() - begun < 20
    assert SECRET not in str(caught.value)
    assert verify(path).ok


@needs_s3
def test_a_server_that_refuses_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = make(tmp_path / "b.tar.zst", FILES)
    environ = {**credentials(port), "AWS_MAX_ATTEMPTS": "1"}
    with pytest.raises(UploadFailed) as caught:
        upload(path, "s3://bucket/x/", Deadline.after(20.0), environ=environ)
    assert SECRET not in str(caught.value)
    assert verify(path).ok


def test_a_child_that_never_ends_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Any library may hang, with any signal handler in place."""
    path = make(tmp_path / "b.tar.zst", FILES)
    (tmp_path / "fsspec.py").write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen(['sleep', '600'])\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with pytest.raises(UploadFailed, match="not done by its deadline"):
        upload(path, "file:///nowhere/", Deadline.after(4.0), environ=environ)
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10
    while time.monotonic() < until and alive(pid):
        time.sleep(0.02)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
