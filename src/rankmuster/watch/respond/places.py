"""Where the files of one stop lie, and what there is of them. One folder a stop: who is done with it deletes it.

`bundle` (or `bundle.*.part` of a collection that was killed), `verdict.json`, `report.txt`, `stop.json`, `steps.log`,
`lock`.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.collect.find.naming import clean
from rankmuster.model.plain_json import NotPlain
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_from_plain
from rankmuster.watch.respond.past import Key

BUNDLE, VERDICT, REPORT, LOG, TOLD = "bundle", "verdict.json", "report.txt", "steps.log", "stop.json"

MAX_VERDICT_BYTES = 8 << 20
"""Of a verdict that is read: one of 512 ranks takes 300 KiB."""

MAX_LOG_BYTES = 1 << 20
"""Of one stop's log: seven steps with all of the output that is kept of each."""

MOST_LISTED = 100_000
"""Entries of the folder of all stops that are looked at."""


MOST_NAME_BYTES = 160
"""Of an instance's name in a folder's: that has at most 255 bytes (path_resolution(7)), and a letter up to 4."""


class Unreadable(Exception):
    """The file is not what it should be; the message says how."""


def folder_name(key: Key, number: int, at: float) -> str:
    """`llm-0-20261130T033400Z-1f2e3d4c`: instance, time, and what keeps two apart that are alike in both."""
    try:
        stamp = datetime.fromtimestamp(at, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    except (OverflowError, OSError, ValueError):
        stamp = "unknown-time"
    apart = "\0".join((key.host, key.instance, key.incarnation, str(number)))
    digest = f"{zlib.crc32(apart.encode('utf-8', 'surrogatepass')):08x}"
    shown = clean(key.instance)[:80].encode("utf-8")[:MOST_NAME_BYTES].decode("utf-8", "ignore")
    return f"{shown.lstrip('.-') or 'unnamed'}-{stamp}-{digest}"


def find_bundle(folder: Path) -> Path | None:
    """The bundle in a stop's folder; else what a collection that was killed has left, which `diagnose` reads too."""
    whole = folder / BUNDLE
    if whole.is_dir():
        return whole
    try:
        parts = sorted(one for one in folder.glob(f"{BUNDLE}.*.part") if one.is_dir())
    except OSError:
        return None
    for part in parts:
        try:
            if any(not one.name.startswith(".") for one in part.iterdir()):
                return part
        except OSError:
            continue
    return None


def count_bundles(folder: Path) -> int:
    """How many stops in this folder have a bundle. Raises OSError."""
    count = 0
    with os.scandir(folder) as entries:
        for seen, entry in enumerate(entries):
            if seen >= MOST_LISTED:
                break
            if entry.is_dir(follow_symlinks=False) and find_bundle(Path(entry.path)) is not None:
                count += 1
    return count


def read_bounded(path: Path, most: int) -> bytes:
    """A regular file of at most `most` bytes, symbolic links not followed. Raises Unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(f"{path} is no regular file")
            data = file.read(most + 1)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read ({error.strerror or error})") from error
    if len(data) > most:
        raise Unreadable(f"{path} has more than {most >> 10} KiB")
    return data


def collector_endings(bundle: Path) -> dict[str, str]:
    """Collector -> how it ended, by the bundle's manifest; empty where there is none that can be read."""
    # Loaded where there is a bundle: with it come hashes, 4 MB, that most watches never need.
    from rankmuster.collect.bundle.manifest import MAX_MANIFEST_BYTES, ManifestRefused, parse

    try:
        document = parse(read_bounded(bundle / "manifest.json", MAX_MANIFEST_BYTES)).document
    except (Unreadable, ManifestRefused):
        return {}
    collectors = document.get("collectors")
    if not isinstance(collectors, dict):
        return {}
    return {
        str(name): str(value["outcome"])
        for name, value in collectors.items()
        if isinstance(value, dict) and "outcome" in value
    }


def read_verdict(path: Path) -> tuple[Verdict, dict[str, object]]:
    """The verdict that `diagnose` wrote, and the same as plain JSON. Raises Unreadable."""
    data = read_bounded(path, MAX_VERDICT_BYTES)
    try:
        raw = json.loads(data)
        if not isinstance(raw, dict):
            raise Unreadable(f"{path} holds a {type(raw).__name__} and no verdict")
        return verdict_from_plain(raw), raw
    except (ValueError, NotPlain, RecursionError) as error:
        raise Unreadable(f"{path} holds no verdict ({' '.join(str(error).split())[:200]})") from error
