"""Secrets that somebody planted are in no file of a bundle, folder or archive, nor in its manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from planted import COMMAND, FOLLOWING, IN_COMMAND, IN_VARIABLES, PLANTED, VARIABLES

from rankmuster.collect.bundle import manifest, write
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.strip.command import allowed_command
from rankmuster.collect.strip.environment import allowed
from rankmuster.collect.strip.text import scrub
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.folder import walk
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.unpack import unpack

CONTEXT = "(APIServer pid=7) INFO 11-29 20:00:00 [x.py:1] {}\n"
PREFIXES = ("{}\n", CONTEXT, "<6>[  12.5] app[7]: {}\n", "2026-11-29T20:00:00.000Z stderr F {}\n")


@pytest.mark.parametrize(("secret", "line"), PLANTED, ids=lambda value: value[:24])
def test_a_line_loses_its_secret_and_nothing_is_added(secret: str, line: str) -> None:
    for prefix in PREFIXES:
        before = prefix.format(line).encode()
        after = scrub(before)
        assert secret.encode() not in after
        assert after.count(b"\n") == before.count(b"\n")
        assert scrub(after) == after


@pytest.mark.parametrize(("secret", "text"), FOLLOWING)
def test_a_secret_on_the_next_line_goes_and_what_follows_it_stays(secret: str, text: str) -> None:
    before = f"rank 3 starts\n{text}\nrank 3 waits\n".encode()
    after = scrub(before)
    assert secret.encode() not in after
    assert after.count(b"\n") == before.count(b"\n")
    assert after.startswith(b"rank 3 starts\n")
    assert after.endswith(b"\nrank 3 waits\n")
    assert [line for line in before.split(b"\n") if b"port" in line] == [
        line for line in after.split(b"\n") if b"port" in line
    ]
    assert scrub(after) == after


def test_there_are_many_forms() -> None:
    assert len({line for _, line in PLANTED}) >= 60


@pytest.mark.parametrize("name", ["bundle", "bundle.tar.zst"])
def test_none_of_them_is_in_a_bundle(tmp_path: Path, name: str) -> None:
    staging = write.open_staging(tmp_path / name)
    store = staging.store()
    sink = store.sink("framework-logs")
    text = "".join(line + "\n" for _, line in (*PLANTED, *FOLLOWING)).encode()
    sink.put("logs/engine.log", text, text=True)
    sink.put("kernel/dmesg.txt", b"".join(b"[ 1.0] " + line.encode() + b"\n" for _, line in PLANTED), text=True)
    sink.put("engine/1795986479.454.prom", b"# HELP x\n" + text, text=True)
    sink.put("logs/wide.log", text.decode().encode("utf-16"), text=True)
    facts = {"environment": allowed(VARIABLES), "command": allowed_command(COMMAND)}
    sink.put("platform/processes.json", json.dumps(facts).encode())
    ended = [manifest.Report("framework-logs", Outcome(Ending.DONE, f"read {PLANTED[0][1]}"), 1795986479.0, 0.5)]
    around = manifest.Circumstances("0.1.0", "n1", 1795986479.0, 1795986480.0, 20.0, notes=(PLANTED[31][1],))
    document = manifest.build(store.close(), ended, around)
    sealed = staging.seal(document)

    blobs = [part for item in walk(sealed.path) if isinstance(item, Blob) for part in unpack(item, Allowance())]
    assert sum(isinstance(blob, Blob) for blob in blobs) == 6
    everything = b"\n".join(blob.data for blob in blobs if isinstance(blob, Blob))
    everything += everything.replace(b"\0", b"")
    secrets = [*(secret for secret, _ in (*PLANTED, *FOLLOWING)), *IN_VARIABLES, *IN_COMMAND]
    assert [secret for secret in secrets if secret.encode() in everything] == []
    assert b"NCCL_DEBUG" in everything  # what is evidence stays
