"""Bundles for tests, made by the code that makes real ones."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import zstandard

from rankmuster.collect.bundle import manifest, write
from rankmuster.collect.outcome import Ending, Outcome

START = 1795986479.0
CASES = Path(__file__).parents[2] / "cases"


def make(
    output: Path,
    files: Mapping[str, bytes],
    *,
    host: str = "n1",
    instance: Mapping[str, object] | None = None,
    look: float = START,
    timed: bool = True,
    collector: str = "ras",
    offsets: Mapping[str, float] | None = None,
) -> Path:
    """A sealed bundle with these files, told by name whose rank they are of."""
    staging = write.open_staging(output)
    store = staging.store()
    sink = store.sink(collector)
    for path, data in files.items():
        rank = int(path.rsplit("_", 1)[1]) if "rank_" in path else None
        sink.put(path, data, look_time=look if timed else None, rank=rank)
    if instance is not None:
        sink.put("instance.json", json.dumps(instance).encode())
    ended = [manifest.Report(collector, Outcome(Ending.DONE, "asked, answered"), look, 0.5, 3.0)]
    around = manifest.Circumstances("0.1.0", host, look, look + 1, 20.0, clock_offsets=offsets or {})
    return staging.seal(manifest.build(store.close(), ended, around)).path


def members(case: str) -> dict[str, bytes]:
    """A packed case's files."""
    unpacked = zstandard.ZstdDecompressor().stream_reader((CASES / case / "input.tar.zst").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        return {m.name: file.read() for m in tar if (file := tar.extractfile(m)) is not None}


def packed(entries: Iterable[tuple[tarfile.TarInfo | str, bytes]]) -> bytes:
    """A `.tar.zst` with exactly these members, whatever they are."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, data in entries:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(raw.getvalue())


def sealed(files: Mapping[str, bytes], **more: object) -> bytes:
    """A manifest that fits these files."""
    import hashlib

    listed = {path: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()}
    return manifest.sealed_bytes({"schema": manifest.SCHEMA, "collectors": {}, "host": "n1", **more, "files": listed})
