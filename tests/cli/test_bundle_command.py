"""`rankmuster bundle`, as a user runs it: words and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rankmuster.collect.bundle import manifest, write
from rankmuster.collect.outcome import Ending, Outcome

Run = Callable[..., "subprocess.CompletedProcess[str]"]

CODE = """
import sys
from rankmuster.cli import bundle, main
if not any(group.typer_instance is bundle.app for group in main.app.registered_groups):
    main.app.add_typer(bundle.app)
sys.exit(int(main.status_of(sys.argv[1:])))
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Run:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CODE, "bundle", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, cwd=tmp_path)

    return run


def make(output: Path, host: str = "n1", rank: int = 0) -> Path:
    staging = write.open_staging(output)
    store = staging.store()
    store.sink("ras").put("ras/a.txt", b"reply " + host.encode())
    text = f'{{"instance": "llm-0", "world_size": 2, "processes": [{{"rank": {rank}, "pid": 7, "host": "{host}"}}]}}'
    store.sink("platform").put("instance.json", text.encode())
    ended = [manifest.Report("ras", Outcome(Ending.DONE, "answered"), 1795986479.0, 0.1)]
    around = manifest.Circumstances("0.1.0", host, 1795986479.0, 1795986480.0, 20.0)
    return staging.seal(manifest.build(store.close(), ended, around)).path


@pytest.mark.parametrize("name", ["b", "b.tar.zst"])
def test_a_whole_bundle_is_said_to_be_whole(bundle: Run, tmp_path: Path, name: str) -> None:
    done = bundle("verify", make(tmp_path / name))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / name}: whole and unchanged: 2 files, {done.stdout.split()[-4]} bytes of n1\n"


def test_what_is_wrong_is_named_line_by_line_and_cannot_act(bundle: Run, tmp_path: Path) -> None:
    path = make(tmp_path / "b")
    (path / "ras" / "a.txt").chmod(0o600)
    (path / "ras" / "a.txt").write_bytes(b"other")
    (path / "\x1b[31mred").write_bytes(b"")
    done = bundle("verify", path)
    assert done.returncode == 1
    assert "size         ras/a.txt: it has 5 bytes, the manifest says 8" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_an_unfinished_collection_is_no_bundle(bundle: Run, tmp_path: Path) -> None:
    staging = write.open_staging(tmp_path / "b")
    staging.store().sink("ras").put("ras/a", b"x")
    done = bundle("verify", staging.folder)
    assert done.returncode == 1
    assert "the collection that wrote it was killed; `diagnose` reads it all the same" in done.stdout


@pytest.mark.parametrize("arguments", [["verify", "nowhere"], ["verify", ""], ["verify"], ["verify", "/dev/null"]])
def test_what_cannot_be_looked_at_has_no_answer(bundle: Run, arguments: list[str]) -> None:
    done = bundle(*arguments)
    assert done.returncode == 3
    assert done.stderr
    assert done.stdout == ""


def test_two_nodes_become_one_bundle(bundle: Run, tmp_path: Path) -> None:
    one, two = make(tmp_path / "a", "a", 0), make(tmp_path / "b.tar.zst", "b", 1)
    done = bundle("merge", "all.tar.zst", one, two)
    assert done.returncode == 0
    assert Path(done.stdout.strip()) == tmp_path / "all.tar.zst"
    assert "merged 2 bundle(s): a, b; 3 files" in done.stderr
    assert bundle("verify", "all.tar.zst").returncode == 0
    again = bundle("merge", "all.tar.zst", one, two)
    assert again.returncode == 3
    assert "never written over" in again.stderr


def test_bundles_that_do_not_fit_are_refused_and_nothing_is_left(bundle: Run, tmp_path: Path) -> None:
    one, two = make(tmp_path / "a", "a", 0), make(tmp_path / "b", "b", 0)
    done = bundle("merge", "all", one, two)
    assert done.returncode == 3
    assert "different incarnations" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert bundle("merge", "all", one, two, "--force").returncode == 0


@pytest.mark.parametrize("command", ["verify", "merge"])
def test_the_help_says_what_the_exit_status_means(bundle: Run, command: str) -> None:
    done = bundle(command, "--help")
    assert done.returncode == 0
    assert "Exit status: 0" in done.stdout
