"""Every file that the gate reads, damaged in every way: an answer or a refusal with the file's name, never a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from gate_world import World, world
from rankmuster.cli.gate import app
from rankmuster.cli.status import CommandError, ExitStatus

FILES = (
    "gate.yaml",
    "llm.yaml",
    "card.json",
    "incident.yaml",
    "nodes/node7.yaml",
    "history.db",
    "bundle/instance.json",
    "canary.json",
)
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "random": lambda data: os.urandom(2048),
    "nul": lambda data: b"\0" * 4096,
    "list": lambda data: b"[1, 2]",
    "word": lambda data: b"nonsense",
    "deep": lambda data: b"[" * 50_000,
    "bomb": lambda data: (
        b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (c + 1, c + 1, c, c) for c in range(97, 121))
    ),
    "latin": lambda data: b"\xe9" + data,
    "huge": lambda data: b"# " + b"x" * (20 << 20),
}


def answer(*arguments: object) -> tuple[int, str]:
    try:
        return int(get_command(app).main(args=[str(a) for a in arguments], standalone_mode=False) or 0), ""
    except CommandError as error:
        return int(ExitStatus.NO_ANSWER), str(error)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world(tmp_path_factory.mktemp("world"), time.time())


@pytest.mark.parametrize("name", FILES)
def test_no_damage_crashes_or_passes(made, name, capsys):
    path = made.folder / name
    before = path.read_bytes() if path.exists() else b"{}"
    for damage, make in DAMAGES.items():
        path.write_bytes(make(before))
        try:
            if name == "canary.json":
                status, said = answer("canary", "--measured", path, "--config", made.config)
            else:
                status, said = answer("check", "--config", made.config)
        finally:
            path.write_bytes(before)
        assert status != ExitStatus.HEALTHY, damage
        assert status != ExitStatus.NO_ANSWER or path.name in said or "history" in said, (damage, said)
        capsys.readouterr()


@pytest.mark.parametrize("name", ["llm.yaml", "card.json", "incident.yaml", "nodes/node7.yaml", "bundle/instance.json"])
def test_folders_pipes_and_links_to_nothing_are_refused_at_once(made, name, capsys):
    path = made.folder / name
    before = path.read_bytes()

    def pipe(at: Path) -> None:
        os.mkfifo(at)

    def link(at: Path) -> None:
        at.symlink_to("/nowhere")

    try:
        for make in (Path.mkdir, pipe, link):
            path.unlink()
            make(path)
            begun = time.monotonic()
            status, _ = answer("check", "--config", made.config)
            assert time.monotonic() - begun < 20
            assert status != ExitStatus.HEALTHY
            path.rmdir() if path.is_dir() else path.unlink()
            path.write_bytes(before)
            capsys.readouterr()
    finally:
        path.write_bytes(before)
