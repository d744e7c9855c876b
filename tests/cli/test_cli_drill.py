"""`rankmuster drill` as a user runs it: what is refused with its reason, the card, and what a drill exits with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drill_cards import card, control, fault, quiet_controls
from rankmuster.cli.as_ctrl_c import as_ctrl_c
from rankmuster.collect.machine import Machine
from rankmuster.drill.able import catalogue
from rankmuster.drill.apart import ALLOWED
from rankmuster.drill.card import said_of
from rankmuster.model import drill_card
from rankmuster.model.fault import Progress
from rankmuster.store.journal import Journal
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HOSTILE = "evil\x1b[31m\u202e`|[link](http://x)<b>"


def kept(folder: Path, made: drill_card.ScoreCard) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "card.json").write_text(made.to_json())
    return folder


# -- list


def test_the_catalogue_says_what_must_come_back_and_what_can_be_made_here(command: Run) -> None:
    shown = command("drill", "list")
    assert shown.returncode == 0
    assert all(one.name in shown.stdout for one in catalogue())
    assert "missing_enter" in shown.stdout
    listed = json.loads(command("drill", "list", "--format", "json").stdout)
    assert listed["schema"] == "rankmuster.drill-list/1"
    by_name = {one["name"]: one for one in listed["faults"]}
    assert set(by_name) == {one.name for one in catalogue()}
    gloo = next(one for one in by_name["freeze"]["wanted"] if one["backend"] == "gloo")
    assert (gloo["classes"], gloo["subclasses"], gloo["culprit"]) == (
        ["process_or_device_lost"],
        ["unresponsive"],
        "must",
    )
    assert by_name["kill"]["own_job"] is True
    slow = next(one for one in by_name["slow"]["wanted"] if one["backend"] == "gloo")
    assert slow["classes"] == ["performance_degradation"]  # the watch knows it, whatever one look of collect sees
    assert {one["name"] for one in listed["controls"] if one["default"]} == {
        "healthy",
        "idle",
        "long-prefill",
        "contended",
        "restart",
    }


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_what_cannot_be_made_here_says_why(command: Run) -> None:
    listed = json.loads(command("drill", "list", "--format", "json").stdout)
    stop = next(one for one in listed["faults"] if one["name"] == "stop")
    nccl = next(one for one in stop["wanted"] if one["backend"] == "nccl")
    assert "no NVIDIA driver answers here" in nccl["why_not"]


# -- run, refused


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["kill"], "Missing option '--target'"),
        (["kil", "--target", "built-in"], "there is no fault named 'kil'; there are"),
        (["--target", "built-in"], "name the faults to make, or all"),
        (["none", "--target", "built-in"], "none is no fault"),
        (["graph_stop", "--target", "built-in"], "graph_stop cannot be made with gloo; it can with nccl"),
        (["kill", "--target", "built-in", "--controls", "noise"], "there is no control named 'noise'"),
        (["kill", "--target", "built-in", "--ranks", "1"], "--ranks"),
        (["kill", "--target", "built-in", "--ranks", "2", "--culprit", "2"], "rank 2 is not in a job of 2 ranks"),
        (["kill", "--target", "built-in", "--graph"], "only NCCL's collectives"),
        (["kill", "--target", "built-in", "--env", "A"], "--env 'A' is not NAME=VALUE"),
        (["kill", "--target", "built-in", "--release-digest", "latest"], "give sha256: and 64 hex digits"),
        (["kill", "--target", "built-in", "--state", "/tmp"], "--state and --journal are of a job of your own"),
        (["kill", "--target", "llm-0", "--ranks", "4"], "a job of your own is as it is"),
        (["kill", "--target", "llm-0", "--period", "2"], "--period"),
        (["skip", "--target", "llm-0"], "a job of your own can have kill and freeze"),
        (["--target", "llm-0"], "name the faults to make: kill or freeze"),
        (["kill", "--target", "llm-0", "--controls", "idle"], "default (it is left alone and looked at) or none"),
        (["kill", "--target", "drill-no-such-instance"], "there is no instance 'drill-no-such-instance'"),
    ],
)
def test_what_cannot_be_drilled_is_refused_before_anything_is_made(
    arguments: list[str], says: str, command: Run, tmp_path: Path
) -> None:
    done = command("drill", "run", *arguments, "--output", tmp_path / "out")
    assert done.returncode == 3
    assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_refused(command: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").touch()
    done = command("drill", "run", "kill", "--target", "built-in", "--output", tmp_path / "out")
    assert done.returncode == 3
    if "pip install" not in done.stderr:  # where torch is not installed that is said first
        assert "is not empty" in done.stderr


def test_a_dry_run_says_what_would_be_done_and_makes_nothing(command: Run, tmp_path: Path) -> None:
    done = command("drill", "run", "--quick", "--target", "built-in", "--output", tmp_path / "out", "--dry-run")
    if done.returncode == 3:
        assert "pip install 'rankmuster[" in done.stderr
        return
    assert done.returncode == 0
    for words in (
        "2 gloo ranks",
        "fault kill",
        "fault freeze",
        "fault stop",
        "control long-prefill",
        "nothing was done",
    ):
        assert words in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("absent", "extras"), [("torch", "bench"), ("sqlalchemy", "history"), ("torch sqlalchemy alembic", "bench,history")]
)
def test_what_is_not_installed_is_said_before_anything_is_made(absent: str, extras: str, tmp_path: Path) -> None:
    arguments = ["rankmuster", "drill", "run", "kill", "--target", "built-in", "--output", str(tmp_path / "out")]
    code = (
        "import sys\n"
        f"for name in {absent.split()!r}: sys.modules[name] = None\n"
        f"sys.argv = {arguments!r}\n"
        "from rankmuster.cli.main import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "pip install 'rankmuster[" in done.stderr
    assert all(extra in done.stderr for extra in extras.split(","))
    assert not (tmp_path / "out").exists()


# -- run, of a job of one's own


def watched(folder: Path, name: str, host: str = Machine().hostname) -> None:
    """The state that a watch writes of a job that is well."""
    now = time.time()
    view = InstanceView(name, Progress.ADVANCING, now, "because")
    StateFile(folder).write(Snapshot(host, now, WatcherView("0.1.0", now, 60.0), (view,)))


def journal(folder: Path) -> str:
    place = str(folder / "incidents.db")
    with Journal.open(place, create=True):
        return place


@pytest.fixture
def own() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    name = f"own-{uuid.uuid4().hex[:8]}"
    variables = {"RANKMUSTER_INSTANCE": name, ALLOWED: name, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('started', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, **variables},
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield name, process
    process.kill()
    process.communicate()


def test_a_dry_run_of_ones_own_job_names_the_one_process(
    own: tuple[str, subprocess.Popen[bytes]], command: Run, tmp_path: Path
) -> None:
    name, process = own
    watched(tmp_path / "watch", name)
    arguments = ("drill", "run", "kill", "freeze", "--target", name, "--output", tmp_path / "out", "--dry-run")
    done = command(*arguments, "--state", tmp_path / "watch", "--journal", journal(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "out").exists()
    assert f"kill: SIGKILL to pid {process.pid} (python" in done.stdout
    assert f"rank 0 of {name}) and to nobody else" in done.stdout
    assert "freeze: SIGSTOP" in done.stdout
    assert "SIGCONT to it in the end" in done.stdout
    assert process.poll() is None


@pytest.mark.parametrize("doing", ["--dry-run", "--yes"])
@pytest.mark.parametrize("kind", ["absent", "no journal", "no library", "another machine", "not new"])
def test_ones_own_job_is_left_alone_where_watch_journal_or_folder_cannot_be_used(
    own: tuple[str, subprocess.Popen[bytes]], kind: str, doing: str, command: Run, tmp_path: Path
) -> None:
    name, process = own
    watched(tmp_path / "watch", name, "elsewhere" if kind == "another machine" else Machine().hostname)
    place, bare = tmp_path / "none.db", tmp_path / "bare"
    if kind == "no journal":
        place.write_text("no journal at all\n" * 100)
    elif kind != "absent":
        place = Path(journal(tmp_path))
    if kind == "no library":
        (bare / "sqlalchemy").mkdir(parents=True)
        (bare / "sqlalchemy" / "__init__.py").write_text(
            "raise ModuleNotFoundError('it is not installed', name='sqlalchemy')\n"
        )
    if kind == "not new":
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "old").touch()
    arguments = ("drill", "run", "freeze", "--target", name, "--output", tmp_path / "out", doing)
    env = {"PYTHONPATH": str(bare)}
    done = command(*arguments, "--state", tmp_path / "watch", "--journal", place, env=env)
    says = {
        "absent": "there is no journal at",
        "no journal": "none.db",
        "no library": "pip install 'rankmuster[history]'",
        "another machine": "of the machine 'elsewhere'",
        "not new": "is not empty",
    }
    assert done.returncode == 3
    assert says[kind] in " ".join(done.stderr.split())
    assert process.poll() is None
    assert not (tmp_path / "out" / "card.json").exists()


def test_a_drill_that_ends_is_not_broken_off_but_by_a_later_ctrl_c() -> None:
    with as_ctrl_c(again_seconds=1.0):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
        time.sleep(1.1)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)  # as Python has it


def test_ones_own_job_without_a_watch_is_left_alone(
    own: tuple[str, subprocess.Popen[bytes]], command: Run, tmp_path: Path
) -> None:
    name, process = own
    arguments = ("drill", "run", "kill", "--target", name, "--output", tmp_path / "out", "--state", tmp_path, "--yes")
    done = command(*arguments, env={"RANKMUSTER_JOURNAL": str(tmp_path / "none.db")})
    assert done.returncode == 3
    assert "is `rankmuster watch` running" in done.stderr
    assert process.poll() is None
    assert not (tmp_path / "out").exists()


# -- report


@pytest.mark.parametrize(
    ("made", "status", "word"),
    [
        (card(), 0, "PASSED"),
        (card(fault(culprit_wrong=True, culprits=(1,)), *quiet_controls()), 1, "FAILED"),
        (card(fault()), 2, "NOT ENOUGH"),
        (card(complete=False), 2, "NOT ENOUGH"),
    ],
)
def test_the_report_exits_with_what_the_card_comes_to(
    made: drill_card.ScoreCard, status: int, word: str, command: Run, tmp_path: Path
) -> None:
    folder = kept(tmp_path / "drill", made)
    done = command("drill", "report", folder)
    assert (done.returncode, done.stdout.split(":")[0]) == (status, word)
    assert command("drill", "report", folder / "card.json").returncode == status


def test_json_is_the_card_as_it_is_sealed(command: Run, tmp_path: Path) -> None:
    folder = kept(tmp_path / "drill", card())
    done = command("drill", "report", folder, "--format", "json")
    assert done.stdout == card().to_json()
    assert drill_card.read(done.stdout) == card()
    out = tmp_path / "score.md"
    assert command("drill", "report", folder, "--format", "md", "--output", out).returncode == 0
    assert out.read_text().startswith("# Drill: passed")


@pytest.mark.parametrize("form", ["terminal", "md"])
def test_hostile_words_in_a_card_do_nothing(form: str, command: Run, tmp_path: Path) -> None:
    bad = fault(HOSTILE, why=HOSTILE, said_class=HOSTILE, wrongs=(HOSTILE,), detected_by=HOSTILE, class_right=False)
    made = card(bad, control(HOSTILE, wrongs=(HOSTILE,)), target=HOSTILE, artefact=HOSTILE)
    made = replace(made, machine={"host": HOSTILE, "gpus": [{"model": HOSTILE, "count": HOSTILE}], "versions": HOSTILE})
    shown = command("drill", "report", kept(tmp_path / "drill", made), "--format", form).stdout
    assert "evil" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    if form == "md":
        assert "[link](http" not in shown
        assert "<b>" not in shown


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda text: text.replace('"detected_seconds":10.0', '"detected_seconds":1.0'),
            "changed after it was written",
        ),
        (lambda text: text[: len(text) // 2], "no whole JSON"),
        (lambda text: text.replace("rankmuster.drill/1", "rankmuster.drill/9"), "a later version of rankmuster wrote"),
        (lambda _: "", "no whole JSON"),
    ],
)
def test_a_card_that_was_changed_or_torn_is_refused(
    damage: Callable[[str], str], says: str, command: Run, tmp_path: Path
) -> None:
    folder = kept(tmp_path / "drill", card())
    (folder / "card.json").write_text(damage((folder / "card.json").read_text()))
    done = command("drill", "report", folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr


def test_a_folder_without_a_card_is_refused(command: Run, tmp_path: Path) -> None:
    done = command("drill", "report", tmp_path)
    assert done.returncode == 3
    assert "drill run --output" in done.stderr


# -- verify


@pytest.fixture
def drilled(command: Run, tmp_path: Path) -> Path:
    """A drill's folder with a bundle that really is one: a packed case, which `diagnose` reads as it is."""
    (tmp_path / "drill").mkdir()
    bundle = tmp_path / "drill" / "freeze.tar.zst"
    shutil.copy(Path(__file__).parents[1] / "cases" / "collect-freeze" / "input.tar.zst", bundle)
    said = said_of(json.loads(command("diagnose", bundle, "--format", "json").stdout))
    return kept(tmp_path / "drill", card(fault(bundle=bundle.name, bundle_said=said), *quiet_controls()))


def test_bundles_that_say_the_same_again_verify(drilled: Path, command: Run) -> None:
    done = command("drill", "verify", drilled)
    assert done.returncode == 0
    assert "1 of 1 bundles give the same verdict" in done.stdout


def test_a_bundle_that_says_something_else_does_not(drilled: Path, command: Run) -> None:
    kept(drilled, card(fault(bundle="freeze.tar.zst", bundle_said="healthy; culprit nobody"), *quiet_controls()))
    done = command("drill", "verify", drilled)
    assert done.returncode == 1
    assert "NOT THE SAME" in done.stdout
    (drilled / "freeze.tar.zst").unlink()
    assert command("drill", "verify", drilled).returncode == 1


def test_a_drill_without_bundles_verifies_nothing(command: Run, tmp_path: Path) -> None:
    assert command("drill", "verify", kept(tmp_path / "drill", card(*quiet_controls()))).returncode == 2
    assert command("drill", "verify", tmp_path / "drill" / "card.json").returncode == 3
    assert command("drill", "verify", tmp_path / "nowhere").returncode == 3


def test_list_and_report_work_without_torch_and_sqlalchemy(program: Path, tmp_path: Path) -> None:
    """As in a base install: an import of either would end the program."""
    folder = kept(tmp_path / "drill", card())
    for name in ("torch", "sqlalchemy", "alembic"):
        (tmp_path / "bare" / name).mkdir(parents=True)
        (tmp_path / "bare" / name / "__init__.py").write_text("raise ImportError('not in a base install')\n")
    for arguments in (["list"], ["report", str(folder)]):
        done = subprocess.run(
            [str(program), "drill", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "bare")},
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
