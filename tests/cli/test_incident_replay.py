"""`rankmuster incident replay`: the same evidence decides the same, other settings show what they would have done."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command

from incident_story import BOUNDS, OPENING, Story, waiting, written
from rankmuster.cli.incident import app
from rankmuster.cli.status import CommandError
from rankmuster.collect.bundle import manifest
from rankmuster.diagnose.run import examine
from rankmuster.evidence.bundle import load
from rankmuster.incident.decide import DecideSettings, Facts, decide
from rankmuster.incident.facts import rank_hosts
from rankmuster.incident.limits import Limits
from rankmuster.incident.within_limits import within_limits
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Course, Decision, EventKind, Step
from rankmuster.model.plain_json import to_plain
from rankmuster.model.verdict_json import verdict_to_plain

pytest.importorskip("sqlalchemy")
from rankmuster.store.journal import Journal

CASE = Path(__file__).parents[1] / "cases" / "skipped-call" / "input.tar.zst"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return Path(shutil.copy(CASE, tmp_path / "bundle.tar.zst"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RANKMUSTER_JOURNAL", str(tmp_path / "incidents.db"))
    return str(tmp_path / "incidents.db")


def replayed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    try:
        status = get_command(app).main(args=["replay", *map(str, arguments)], standalone_mode=False)
    except CommandError as error:
        return 3, str(error)
    return int(status or 0), capsys.readouterr().out


def seal(folder: Path, files: dict[str, bytes]) -> None:
    """A bundle of these files, whole."""
    listed = {path: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()}
    for path, data in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(data)
    document = {"schema": manifest.SCHEMA, "collectors": {}, "host": "n1", "files": listed}
    (folder / "manifest.json").write_bytes(manifest.sealed_bytes(document))


@pytest.mark.parametrize("wrong", ["a file", "the manifest"])
def test_evidence_that_is_not_what_was_saved_is_said_to_be_so(
    tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    files = {"logs/rank0.log": b"started\n"}
    seal(folder, files)
    digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    story = Story().runner().plan(Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE)
    story.act(Step.EVIDENCE, "collect:collect", bundle=str(folder), sha256=digest)
    incident = written(place, story)
    assert "not what was saved" not in replayed(capsys, incident)[1]
    if wrong == "a file":
        (folder / "logs/rank0.log").write_bytes(b"startee\n")
    else:
        seal(folder, {"logs/rank0.log": b"another\n"})
    said = replayed(capsys, incident)[1]
    assert "the evidence is not what was saved" in said
    assert "rankmuster bundle verify" in said
    assert "not what was saved" in replayed(capsys, incident, "--format", "json")[1]


def test_whose_settings_decide_again_is_said(
    bundle: Path, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "incident.yaml"
    settings.write_text("least_confidence: possible\n")
    incident = written(place, story_of(bundle, decided(bundle)))
    assert "the settings that are built in" in replayed(capsys, incident)[1]
    assert "the settings that are built in" not in replayed(capsys, incident, "--config", settings)[1]


def decided(bundle: Path, facts: Facts | None = None) -> Decision:
    verdict = examine(load(bundle)).diagnosis.verdict
    known = replace(facts or Facts(), rank_hosts=rank_hosts(verdict))
    return decide(verdict, OPENING, known, DecideSettings())


def story_of(bundle: Path, decision: Decision, **plan: object) -> Story:
    story = Story().runner().plan(Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE)
    if plan:
        story.put(EventKind.PLANNED, data={"steps": [], **plan})
        story.plan(Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE)
    story.act(Step.EVIDENCE, "collect:collect", bundle=str(bundle))
    story.begin(Step.DIAGNOSE).end(Step.DIAGNOSE)
    story.begin(Step.DECIDE).put(EventKind.DECIDED, data=to_plain(decision, BOUNDS))
    return story.plan(Step.TERMINATE, Step.START, Step.VERIFY, Step.RESTORE).end(Step.DECIDE)


@pytest.mark.parametrize("facts", [Facts(), Facts(progress=Progress.ADVANCING), Facts(systematic="h200 lost 4 %")])
def test_the_same_evidence_decides_the_same(
    capsys: pytest.CaptureFixture[str], place: str, bundle: Path, facts: Facts
) -> None:
    incident = written(place, story_of(bundle, decided(bundle, facts)))
    status, out = replayed(capsys, incident)
    assert out.startswith(f"THE SAME is decided again about incident {incident}")
    assert "other words" not in out
    assert status == 0
    assert replayed(capsys, bundle)[0] == 0


def test_what_limits_left_out_is_no_difference(capsys: pytest.CaptureFixture[str], place: str, bundle: Path) -> None:
    made = decided(bundle)
    opening = replace(OPENING, instance="llm-9")
    with Journal.open(place) as journal:
        incident, _ = journal.open_incident(opening, "h-1:1")
        lease = journal.take_lease("llm-9", "h-1:1", 60.0)
        assert lease is not None
        for number in range(5):
            other, _ = journal.open_incident(replace(OPENING, instance=f"other-{number}"), "h-1:1")
            its = journal.take_lease(f"other-{number}", "h-1:1", 60.0)
            assert its is not None
            within_limits(journal, other, its, made, f"other-{number}", Limits(), OPENING.at)
        held = within_limits(journal, incident, lease, made, "llm-9", Limits(), OPENING.at)
    assert held.waits_for_limits
    incident = written(place, story_of(bundle, held))
    status, out = replayed(capsys, incident)
    assert out.startswith("THE SAME")
    assert status == 0


def test_other_settings_show_what_they_would_have_done(
    capsys: pytest.CaptureFixture[str], place: str, bundle: Path, tmp_path: Path
) -> None:
    incident = written(place, story_of(bundle, decided(bundle)))
    settings = tmp_path / "other.yaml"
    settings.write_text("recovery: [{class: collective_desync, boundary: none}]\n", encoding="utf-8")
    status, out = replayed(capsys, incident, "--config", settings)
    assert status == 1
    assert "course: then rebuild; now hold" in out
    found = json.loads(replayed(capsys, incident, "--config", settings, "--format", "json")[1])
    assert found["same"] is False
    assert {"course", "boundary"} <= set(found["differences"])


def test_a_decision_that_was_changed_in_the_journal_is_seen(
    capsys: pytest.CaptureFixture[str], place: str, bundle: Path
) -> None:
    other = replace(decided(bundle), course=Course.CUT, boundary=Boundary.REQUEST)
    incident = written(place, story_of(bundle, other))
    status, out = replayed(capsys, incident)
    assert status == 1
    assert "course: then cut; now rebuild" in out


def test_the_verdict_that_an_incident_was_opened_with_is_used_again(
    capsys: pytest.CaptureFixture[str], place: str, bundle: Path
) -> None:
    verdict = examine(load(bundle)).diagnosis.verdict
    opening = replace(OPENING, verdict=verdict_to_plain(verdict))
    story = Story(opening).runner().plan(Step.DECIDE).begin(Step.DECIDE)
    story.put(EventKind.DECIDED, data=to_plain(decide(verdict, opening, Facts(), DecideSettings()), BOUNDS))
    incident = written(place, story.plan(Step.TERMINATE).end(Step.DECIDE))
    assert replayed(capsys, incident)[0] == 0


def test_evidence_that_is_gone_or_of_no_incident(
    capsys: pytest.CaptureFixture[str], place: str, bundle: Path, tmp_path: Path
) -> None:
    status, out = replayed(capsys, bundle)  # there is no journal yet
    assert status == 2
    assert "no decision to compare" in out
    incident = written(place, waiting())
    status, out = replayed(capsys, incident)
    assert status == 3
    assert "/evidence/b1" in out
    assert "copy it here" in out
    assert replayed(capsys, bundle)[0] == 2
    assert replayed(capsys, "nobody")[0] == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    assert replayed(capsys, empty)[0] == 3
