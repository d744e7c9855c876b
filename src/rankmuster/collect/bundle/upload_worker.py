"""The child process of an upload: copies one bundle to one URL and says on standard output how it went.

It is a process of its own because a storage client may wait for ever on a server that answers half: the parent kills
it. Arguments come on standard input as JSON; credentials come from the environment alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from rankmuster.collect.bundle.digest import digest, digest_of
from rankmuster.collect.bundle.paths import MANIFEST

MAX_READ_BACK = 256 << 20
"""Bytes up to which an object is read back to compare its digest; of larger ones the size is compared."""
_ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "memory", "oci", "r2"})
"""Stores in which an object appears whole or not at all, so that no second name is needed."""
MISSING_EXTRA = "missing extra"
THERE = "exists already"
"""What is said of a place that is taken."""


def put(path: Path, url: str) -> dict[str, Any]:
    """Copies the bundle to `url` (a trailing `/`: below it, by its own name) and compares what is there.

    Returns {"url", "files", "bytes", "checked"}; raises whatever the store raises, FileExistsError where the place is
    taken. A folder's manifest goes last: what has none is no bundle.
    """
    fsspec: Any = importlib.import_module("fsspec")  # an extra; the parent has a sentence for its absence
    if url.endswith("/"):
        url += path.name
    store, place = fsspec.core.url_to_fs(url)
    if store.exists(place):
        raise FileExistsError(f"{url} {THERE}; a bundle is never written over anything")
    names = [""] if path.is_file() else _names(path)
    atomic = _protocols(store) <= _ATOMIC
    total, sure = 0, True
    for name in names:
        source = path / name if name else path
        target = f"{place}/{name}" if name else place
        size, sha256 = digest(source)
        if not atomic:
            store.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        at = target if atomic else f"{target}.part"
        store.put_file(str(source), at)
        sure = _compare(store, at, size, sha256) and sure
        if not atomic:
            store.mv(at, target)
        total += size
    return {"url": url, "files": len(names), "bytes": total, "checked": "sha256" if sure else "size"}


def _protocols(store: Any) -> set[str]:
    protocol = store.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def _names(folder: Path) -> list[str]:
    """Every file of a bundle, its manifest last."""
    found = [
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file() and not file.is_symlink()
    ]
    return sorted(found, key=lambda name: (name == MANIFEST, name))


def _compare(store: Any, place: str, size: int, sha256: str) -> bool:
    """Whether the digest was compared too. Raises OSError when the copy is another."""
    store.invalidate_cache()
    there = store.size(place)
    if there != size:
        raise OSError(f"the copy has {there} bytes, and the bundle's file has {size}")
    if size > MAX_READ_BACK:
        return False
    with store.open(place, "rb") as file:
        _, copied = digest_of(file)
    if copied != sha256:
        raise OSError("the copy has another content than the bundle's file")
    return True


def main() -> None:
    """Reads the task, does it, and writes the answer as one line of JSON."""
    task = json.loads(sys.stdin.read())
    try:
        answer = put(Path(task["path"]), task["url"])
    except ImportError as error:
        answer = {"error": str(error), "kind": MISSING_EXTRA}
    except Exception as error:  # stores raise what they like; the parent tells the story
        answer = {"error": f"{type(error).__name__}: {error}", "kind": "failed"}
    # By the buffer: a client library may have printed to the text layer already.
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\n" + json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
