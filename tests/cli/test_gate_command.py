"""`rankmuster gate` as commands: check, approve, status, roll back, canary; their words and exit statuses."""

from __future__ import annotations

import json
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from command_run import Run, runner
from gate_world import World, fingerprint, world
from rankmuster.cli.gate import app
from rankmuster.cli.status import ExitStatus
from rankmuster.gate.canary_document import read as read_canary
from rankmuster.gate.document import read
from rankmuster.model.fault import Progress
from rankmuster.report.fingerprint_yaml import as_yaml
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(app, capsys)


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path, time.time())


def config(made: World) -> tuple[str, Path]:
    return "--config", made.config


def test_a_release_that_is_proven_passes_and_is_approved(run, made):
    status, out, _ = run("check", *config(made))
    assert status == ExitStatus.HEALTHY
    assert "may take traffic: all 11 items pass" in out
    status, out, err = run("approve", *config(made), "--by", "jane", "--reason", "first of its kind")
    assert status == ExitStatus.HEALTHY
    record = read((made.folder / "releases" / "llm-0" / "0001.json").read_bytes())
    assert record.by == "jane"
    assert record.hash in out
    assert "0001.json" in err
    assert record.artefact.parts[0].digest in out or record.artefact.parts[0].digest.startswith("sha256:a1")
    assert record.artefact.versions["nccl"] == "2.28.9"
    assert record.artefact.profile.startswith("llm-0@")
    assert "hf_secret" not in (made.folder / "releases" / "llm-0" / "0001.json").read_text()
    status, out, _ = run("status", *config(made))
    assert status == ExitStatus.HEALTHY
    assert "record 1" in out
    assert "jane" in out


def test_a_release_that_does_not_pass_is_refused_and_nothing_is_recorded(run, made):
    made.settings(drills=None)
    status, out, err = run("approve", *config(made))
    assert status == ExitStatus.UNDECIDED
    assert "refused" in err
    assert "unknown drill" in " ".join(out.split())
    made.deploy(NCCL_DEBUG="TRACE")
    assert run("approve", *config(made))[0] == ExitStatus.FAULT
    assert not (made.folder / "releases").exists()
    status, out, _ = run("status", *config(made))
    assert status == ExitStatus.FAULT
    assert "nothing is approved" in out


def test_all_forms_of_a_check_at_once(run, made):
    made.settings(drills=None, waivers=[{"item": "drill", "owner": "j", "reason": "r", "until": "2999-01-01"}])
    junit, markdown = made.folder / "out.xml", made.folder / "out.md"
    status, out, _ = run("check", *config(made), "--junit", junit, "--markdown", markdown, "--format", "json")
    assert status == ExitStatus.UNDECIDED
    document = json.loads(out)
    assert document["schema"] == "rankmuster.gate/1"
    assert document["passed"] is False
    root = ElementTree.fromstring(junit.read_text())
    assert root.get("errors") == "2"
    assert root.get("tests") == "12"
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["drill"].find("error") is not None
    assert cases["runbook"].find("error") is None
    assert "| `drill` | unknown |" in markdown.read_text()
    assert "at most 90 days are taken" in markdown.read_text()


def test_hostile_names_in_the_evidence_are_inert(run, made):
    made.instance(lambda facts: facts.update(instance="<b>\x1b[31m|`x`\n::error::"))
    made.settings(bundle=["bundle"], drills=["nowhere\x1b[0m"])
    for form in ("terminal", "md", "junit", "json"):
        _, out, _ = run("check", *config(made), "--format", form)
        assert "\x1b" not in out
        assert "\n::error::" not in out


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "release: it is missing"),
        ("release: {name: LLM, workload: x}", "name"),
        ("release: {name: llm, workload: x}\nnonsense: 1", "nonsense"),
        ("release: {name: llm, workload: nowhere.yaml}", "nowhere.yaml"),
        ("release: {name: llm, workload: x}\nwaivers: [{item: x, owner: a, reason: b, until: '2026-01-01'}]", "item"),
        (
            "release: {name: llm, workload: x}\nwaivers: [{item: drill, owner: a, reason: b, until: '2026-02-31'}]",
            "no day that a waiver could have",
        ),
        ("release: {name: llm, workload: x}\nwaivers: [{item: drill, owner: a, reason: b, until: soon}]", "until"),
        ("release: [", "line"),
        ("release: {name: llm, workload: /dev/zero}", "regular"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(run, made, text, word):
    made.config.write_text(text)
    status, _, err = run("check", *config(made))
    assert status == ExitStatus.NO_ANSWER
    assert word in err


def test_settings_that_are_not_there_are_said(run, tmp_path):
    status, _, err = run("check", "--config", tmp_path / "no.yaml")
    assert status == ExitStatus.NO_ANSWER
    assert "no.yaml" in err
    status, _, err = run("status", "--config", tmp_path / "no.yaml")
    assert "--records" in err


def test_status_says_whether_it_is_what_is_deployed(run, made):
    run("approve", *config(made))
    given = ("status", *config(made), "--workload", made.folder / "llm.yaml")
    assert run(*given)[0] == ExitStatus.HEALTHY
    node = made.folder / "nodes" / "node7.yaml"
    assert run(*given, "--fingerprint", node)[0] == ExitStatus.HEALTHY
    other = made.folder / "other.yaml"
    other.write_text(as_yaml(replace(fingerprint(), host="node9", class_hash="sha256:" + "0" * 64)))
    status, out, _ = run(*given, "--fingerprint", other, "--format", "json")
    assert status == ExitStatus.FAULT
    assert "node9 is of class" in json.loads(out)["objections"][0]
    made.deploy(NCCL_NVLS_ENABLE="1")
    status, out, _ = run(*given)
    assert status == ExitStatus.FAULT
    assert "NCCL_NVLS_ENABLE: '0' -> '1'" in out


def test_an_approval_whose_waiver_has_ended_does_not_stand(run, made, monkeypatch):
    made.settings(drills=None)
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))
    waiver = {"owner": "jane", "reason": "lab", "until": day}
    made.settings(waivers=[{"item": item, **waiver} for item in ("drill", "recorder_drill")])
    assert run("approve", *config(made))[0] == ExitStatus.HEALTHY
    assert run("status", *config(made))[0] == ExitStatus.HEALTHY
    now = time.time()
    monkeypatch.setattr("rankmuster.cli.gate_status.time.time", lambda: now + 3 * 86_400)
    status, out, _ = run("status", *config(made))
    assert status == ExitStatus.FAULT
    assert "check it again" in out


def test_records_that_were_changed_stop_every_command(run, made):
    run("approve", *config(made))
    path = made.folder / "releases" / "llm-0" / "0001.json"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("Ring", "Tree").replace('"by": "', '"by": "eve'))
    for command in ("status", "rollback", "approve"):
        status, _, err = run(command, *config(made))
        assert status == ExitStatus.NO_ANSWER
        assert "not as it was written" in err


def second(run: Run, made: World, before: Callable[[], object] = lambda: None) -> None:
    """Two approvals; the second one with another setting. `before`: done between them."""
    assert run("approve", *config(made))[0] == ExitStatus.HEALTHY
    before()
    made.deploy(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="600")
    made.instance(lambda facts: facts["environment"].update(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="600"))
    assert run("approve", *config(made))[0] == ExitStatus.HEALTHY


def test_the_way_back_is_compared_printed_and_recorded(run, made):
    status, out, err = run("rollback", *config(made))
    assert status == ExitStatus.FAULT
    assert "nothing to go back to" in err
    second(run, made)
    status, out, _ = run("rollback", *config(made))
    assert status == ExitStatus.HEALTHY
    assert "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: '600' -> '480'" in out
    given = ("rollback", *config(made), "--workload", made.folder / "llm.yaml")
    status, out, _ = run(*given)
    assert "1 change(s)" in out
    status, out, err = run(*given, "--format", "pod-patch")
    operations = json.loads(out)
    assert [one["op"] for one in operations] == ["test", "test", "replace"]
    assert "kubectl --namespace serving patch LeaderWorkerSet.v1.leaderworkerset.x-k8s.io llm-0" in err
    status, out, _ = run(*given, "--format", "kustomize")
    assert yaml.safe_load(out)["patches"][0]["target"]["name"] == "llm-0"
    status, out, err = run(*given, "--format", "shell")
    assert status == ExitStatus.NO_ANSWER
    assert "only a pod has" in err
    status, out, _ = run("rollback", *config(made), "--format", "json")
    assert read(out).number == 1
    status, out, err = run(*given, "--confirm", "--by", "jane", "--reason", "slow")
    assert status == ExitStatus.HEALTHY
    assert "record 3" in err
    status, out, _ = run("status", *config(made))
    assert "record 1" in out
    assert "bad" in out
    # what was rolled back from does not come back unasked
    status, out, err = run("approve", *config(made))
    assert status == ExitStatus.NO_ANSWER
    assert "record 2 of llm-0 is made of just the same" in err
    made.deploy()
    assert run("status", *config(made), "--workload", made.folder / "llm.yaml")[0] == ExitStatus.HEALTHY
    status, out, err = run("rollback", *config(made))
    assert status == ExitStatus.FAULT, "what was bad is not gone back to"
    for to, word in (("2", "rolled back from"), ("7", "no approval"), ("1", "the one that counts")):
        status, out, err = run("rollback", *config(made), "--to", to, "--confirm")
        assert status == ExitStatus.NO_ANSWER
        assert word in err


def test_forms_that_need_the_object_say_so(run, made):
    second(run, made)
    for form in ("pod-patch", "kustomize"):
        status, _, err = run("rollback", *config(made), "--format", form)
        assert status == ExitStatus.NO_ANSWER
        assert "needs --workload" in err


def test_the_release_is_named_or_the_only_one(run, made):
    run("approve", *config(made))
    records = ("--records", made.folder / "releases")
    assert run("status", *records)[0] == ExitStatus.HEALTHY
    assert run("status", "llm-0", *records)[0] == ExitStatus.HEALTHY
    assert run("status", "llm-9", *records)[0] == ExitStatus.FAULT
    (made.folder / "releases" / "llm-1").mkdir()
    status, _, err = run("status", *records)
    assert status == ExitStatus.NO_ANSWER
    assert "llm-0, llm-1" in err


# -- canary


class Playing:
    """A watch's state file, written every 30 ms by a thread: what `speed` gives for each look."""

    def __init__(self, folder: Path, look: Callable[[int], tuple[InstanceView, ...]]) -> None:
        self.folder, self._look, self._over = folder, look, threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def __enter__(self) -> Playing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _play(self) -> None:
        file, number = StateFile(self.folder), 0
        while not self._over.wait(0.03):
            file.write(Snapshot("here", time.time(), WatcherView("1", 0.0, 5.0), self._look(number)))
            number += 1


def instance(name: str, speed: float, **more: object) -> InstanceView:
    made = InstanceView(name, Progress.ADVANCING, 0.0, "tokens", incarnation="1", tokens_per_s=speed * 8, running=8.0)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmuster.cli.gate_canary.ASK_SECONDS", 0.02)


def watch(run: Run, made: World, look, *more: object, seconds: float = 3.0) -> tuple[int, str, str]:
    state = made.folder / "state"
    with Playing(state, look):
        return run("canary", "--instance", "new", *config(made), "--state", state, "--seconds", seconds, *more)


@pytest.mark.usefixtures("soon")
def test_a_canary_beside_the_approved_instance(run, made):
    output = made.folder / "canary.json"
    look = lambda number: (instance("new", 100.0 + number % 3), instance("old", 100.0 + number % 2))  # noqa: E731
    status, out, _ = watch(run, made, look, "--beside", "old", "--output", output)
    assert status == ExitStatus.HEALTHY
    assert "keep it" in out
    assert read_canary(output.read_bytes()).busy > 24
    # judged again offline, against an earlier one
    status, out, _ = run("canary", "--measured", output, "--baseline", output, *config(made), "--format", "json")
    assert status == ExitStatus.HEALTHY
    assert json.loads(out)["judged"]["advice"] == "keep"
    # its measure is kept with the approval, and canaries of later releases are held against that
    assert "nothing is approved" in run("canary", "--measured", output, *config(made), "--record")[2]
    second(run, made, before=lambda: run("canary", "--measured", output, *config(made), "--record"))
    slow = made.folder / "slow.json"
    document = json.loads(output.read_text())
    document["speeds"] = {load: [value * 0.6 for value in values] for load, values in document["speeds"].items()}
    slow.write_text(json.dumps(document))
    status, out, err = run("canary", "--measured", slow, *config(made), "--record")
    assert status == ExitStatus.FAULT
    assert "rankmuster gate rollback" in out
    assert "not recorded" in err
    assert run("canary", "--measured", output, *config(made), "--record")[0] == ExitStatus.HEALTHY
    assert run("canary", "--measured", output, *config(made), "--against", "1")[0] == ExitStatus.HEALTHY
    assert "nobody has kept" not in run("canary", "--measured", output, *config(made), "--against", "3")[2]
    assert "itself" in run("canary", "--instance", "new", "--beside", "new", *config(made))[2]


@pytest.mark.usefixtures("soon")
def test_a_stop_answers_at_once(run, made):
    def look(number: int) -> tuple[InstanceView, ...]:
        stopped = {"state": Progress.STOPPED, "stops": 1, "reason": "8 requests and no token"} if number > 8 else {}
        return (instance("new", 100.0, **stopped),)

    begun = time.monotonic()
    status, out, _ = watch(run, made, look, seconds=60.0)
    assert time.monotonic() - begun < 30
    assert status == ExitStatus.FAULT
    assert "8 requests and no token" in out


@pytest.mark.usefixtures("soon")
def test_without_a_baseline_or_a_watch_nothing_is_decided(run, made, monkeypatch):
    status, out, _ = watch(run, made, lambda number: (instance("new", 100.0),))
    assert status == ExitStatus.UNDECIDED
    assert "nothing to hold it against" in out
    status, _, err = watch(run, made, lambda number: (instance("old", 100.0),))
    assert status == ExitStatus.NO_ANSWER
    assert "knows no instance 'new'" in err
    monkeypatch.setattr("rankmuster.cli.gate_canary.SIGHT_SECONDS", 0.3)
    status, _, err = run("canary", "--instance", "new", *config(made), "--state", made.folder / "none")
    assert status == ExitStatus.NO_ANSWER
    assert "no watch has written" in err
    assert "--instance" in run("canary", *config(made))[2]


def test_no_measure_is_kept_of_what_saw_no_request(run, made):
    run("approve", *config(made))
    path = made.folder / "canary.json"
    document = {
        "schema": "rankmuster.canary/1",
        "instance": "new",
        "release": None,
        "begun_at": 1.0,
        "ended_at": 2.0,
        "looks": 3,
        "busy": 0,
        "lost": 0,
        "incarnations": [],
        "states": {},
        "speeds": {},
        "troubles": [],
    }
    path.write_text(json.dumps(document))
    status, _, err = run("canary", "--measured", path, *config(made), "--record")
    assert status == ExitStatus.UNDECIDED
    assert "not recorded" in err
    path.write_text("{}")
    assert "rankmuster.canary/1" in run("canary", "--measured", path, *config(made))[2]
