"""From what was drilled to a row of the score card."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drill_cards import fault as right_row
from rankmuster.drill import able, card_again, card_controls, chain_start, rank_settings
from rankmuster.drill.campaign import chain_of
from rankmuster.drill.card import Shape, blank, blank_fault, said_of, with_bars, with_verdict
from rankmuster.drill.card_book import About, CardBook
from rankmuster.drill.card_machine import MachineFacts
from rankmuster.drill.chain_controls import Foreign
from rankmuster.drill.chain_look import run_look
from rankmuster.drill.chain_served import of_incident, run_served
from rankmuster.drill.chain_slow import run_slow
from rankmuster.drill.chain_start import run_start
from rankmuster.drill.engine_folder import EngineFolder
from rankmuster.drill.fault_needs import Machine
from rankmuster.drill.faults import FAULTS
from rankmuster.drill.incident_result import IncidentResult
from rankmuster.drill.incident_settings import Places, settings
from rankmuster.drill.incident_stand import StandFailed
from rankmuster.drill.launch import Launched
from rankmuster.drill.plan import Backend
from rankmuster.drill.tally import RankState, Tally
from rankmuster.incident.config_objections import objections
from rankmuster.incident.config_read import read
from rankmuster.model import drill_card
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.drill_score import CONTROLS

SHAPE = Shape(Backend.GLOO, 4, 2)
BARE = Machine(privileged=False, missing_tools=("ip",), rdma=False, gpu=False, other_nccl="", other_nccl_there=False)


def verdict(class_: str = "process_or_device_lost", sub: str | None = "unresponsive", *culprits: int) -> dict[str, Any]:
    return {
        "class": class_,
        "subclass": sub,
        "suspects": [{"rank": rank, "role": "culprit"} for rank in culprits] + [{"rank": 0, "role": "victim"}],
        "planes": [{"plane": "platform", "state": "spoke"}, {"plane": "ras", "state": "blind"}],
    }


def freeze() -> DrillRun:
    fault = FAULTS["freeze"]
    return blank_fault(fault, fault.truth(Backend.GLOO), SHAPE)


def test_a_row_knows_what_has_to_come_back() -> None:
    row = freeze()
    assert (row.expected_classes, row.expected_subclasses) == (("process_or_device_lost",), ("unresponsive",))
    assert (row.expected_culprit, row.naming, row.most_seconds, row.phase) == (2, "must", 15.0, "serving")
    start = FAULTS["init_absent"]
    assert blank_fault(start, start.truth(Backend.GLOO), SHAPE).phase == "init"
    two = blank_fault(FAULTS["skip"], FAULTS["skip"].truth(Backend.GLOO), replace(SHAPE, ranks=2, culprit=0))
    assert two.naming == "may"  # of two ranks nobody is the majority


@pytest.mark.parametrize(
    ("said", "class_right", "culprit_right", "culprit_wrong"),
    [
        (verdict("process_or_device_lost", "unresponsive", 2), True, True, False),
        (verdict("process_or_device_lost", "killed", 2), False, True, False),
        (verdict("collective_desync", "missing_enter", 2), False, True, False),
        (verdict("process_or_device_lost", "unresponsive"), True, False, False),
        (verdict("process_or_device_lost", "unresponsive", 1), True, False, True),
        (verdict("process_or_device_lost", "unresponsive", 1, 2), True, False, True),
    ],
)
def test_a_verdict_is_held_against_it(
    said: dict[str, Any], class_right: bool, culprit_right: bool, culprit_wrong: bool
) -> None:
    row = with_verdict(freeze(), said)
    assert (row.class_right, row.culprit_right, row.culprit_wrong) == (class_right, culprit_right, culprit_wrong)
    assert row.planes == {"platform": "spoke", "ras": "blind"}


def test_where_naming_is_open_nobody_is_right_and_another_is_wrong() -> None:
    row = replace(freeze(), naming="may")
    assert with_verdict(row, verdict()).culprit_right is True
    assert with_verdict(row, verdict("process_or_device_lost", "unresponsive", 3)).culprit_wrong is True


def test_what_is_wrong_is_said_in_words() -> None:
    row = replace(right_row(), detected_seconds=17.25, said_class="blind", said_subclass=None, class_right=False)
    row = replace(row, culprits=(1,), culprit_wrong=True, service_back=False, evidence_first=False)
    assert with_bars(row, ("the engine coughed",)).wrongs == (
        "the engine coughed",
        "told after 17.2 s, not within 15 s",
        "the verdict is blind, not process_or_device_lost",
        "named was [1], not 2",
        "the group was ended before all evidence was saved",
        "service was not back within 770 s",
    )
    assert with_bars(right_row()).wrongs == ()
    early = replace(right_row(), detected_seconds=-3.0, named_seconds=-1.0)
    assert with_bars(early).wrongs == ("told after -3.0 s, not within 15 s", "named after -1.0 s, not within 20 s")
    assert with_bars(replace(right_row(), detected=False)).wrongs == ("it was not told",)


def result(**more: Any) -> IncidentResult:
    moments = {"fault_at": 100.0, "detected_at": 110.0, "first_token_at": 119.0}
    about: dict[str, Any] = {
        "opened_by": "stopped",
        "outcome": "recovered",
        "course": "rebuild",
        "moments": moments,
        "seconds": {"total": 19.0},
        "evidence_first": True,
        "named_by": "verdict",
        "named_at": 114.5,
        "incidents": 1,
    }
    return IncidentResult("freeze", "gloo", 4, False, 0, "", "", **{**about, **more})


def test_an_incident_becomes_a_row(tmp_path: Path) -> None:
    bundle, said = tmp_path / "000-freeze" / "evidence", tmp_path / "verdict.json"
    bundle.mkdir(parents=True)
    said.write_text(json.dumps(verdict("process_or_device_lost", "unresponsive", 2)))
    row = of_incident(freeze(), result(bundle=str(bundle), verdict=str(said)), tmp_path)
    assert (row.right, row.wrongs) == (True, ())
    assert (row.detected_by, row.detected_seconds, row.named_seconds, row.back_seconds) == ("watch", 10.0, 14.5, 19.0)
    assert (row.bundle, row.bundle_said) == ("000-freeze/evidence", said_of(json.loads(said.read_text())))
    assert (row.service_back, row.evidence_saved, row.evidence_first) == (True, True, True)


def test_an_incident_that_failed_or_lost_a_request_is_not_right(tmp_path: Path) -> None:
    row = of_incident(freeze(), result(outcome="failed", lost=1, trouble=("the incident ended as failed",)), tmp_path)
    assert row.service_back is False
    assert "the incident ended as failed" in row.wrongs
    assert "1 request(s) had no answer and no error" in row.wrongs
    assert "no whole bundle was saved" in row.wrongs


def test_a_fault_that_was_never_made_proves_nothing(tmp_path: Path) -> None:
    row = of_incident(freeze(), result(moments={}, trouble=("the engine did not start",)), tmp_path)
    assert (row.made, row.wrongs) == (False, ("the engine did not start",))


# -- again


def diagnosed(said: dict[str, Any]) -> Any:
    return lambda _: said


def test_a_bundle_that_says_the_same_again_is_right(tmp_path: Path) -> None:
    said = verdict("process_or_device_lost", "unresponsive", 2)
    row = replace(right_row(), again=None, bundle="b", bundle_said=said_of(said))
    (tmp_path / "b").mkdir()
    assert card_again.again(row, tmp_path, diagnose=diagnosed(said)).again is True
    other = card_again.again(row, tmp_path, diagnose=diagnosed(verdict("blind", None)))
    assert other.again is False
    assert "diagnosed again it is blind; culprit nobody, not process_or_device_lost" in other.wrongs[-1]


@pytest.mark.parametrize(
    ("path", "says"), [("b", "it is not there"), ("../b", "leads out of"), ("/etc", "leads out of")]
)
def test_a_bundle_that_is_gone_or_elsewhere_does_not(path: str, says: str, tmp_path: Path) -> None:
    row = card_again.again(replace(right_row(), bundle=path), tmp_path, diagnose=diagnosed({}))
    assert row.again is False
    assert says in row.wrongs[-1]


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", "loop", "loop/b", "x" * 5000])
def test_a_path_that_no_file_can_have_is_a_difference_too(path: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    row = card_again.again(replace(right_row(), bundle=path), tmp_path, diagnose=diagnosed({}))
    assert row.again is False
    assert "leads nowhere" in row.wrongs[-1] or "it is not there" in row.wrongs[-1]


def test_a_row_without_a_bundle_stays_as_it_is(tmp_path: Path) -> None:
    row = blank("healthy", "control", SHAPE)
    assert card_again.again(row, tmp_path, diagnose=diagnosed({})) == row


# -- the book


def test_the_card_is_there_after_every_row_and_is_whole_at_the_end_alone(tmp_path: Path) -> None:
    told: list[DrillRun] = []
    place = tmp_path / "000-kill"
    place.mkdir()
    (place / "settings.json").write_text(json.dumps({"NCCL_DEBUG_FILE": f"{place}/nccl_%h.log"}))
    book = CardBook(About("built-in", MachineFacts({"cpus": 2}, {"class_hash": None})), tmp_path, told.append)
    first = drill_card.read((tmp_path / "card.json").read_bytes())
    assert (first.complete, first.passed, first.runs) == (False, None, ())
    book.keep(blank("healthy", "control", SHAPE))
    assert [row.name for row in told] == ["healthy"]
    second = drill_card.read((tmp_path / "card.json").read_bytes())
    assert (second.complete, len(second.runs)) == (False, 1)
    assert book.close() == drill_card.read((tmp_path / "card.json").read_bytes())
    assert drill_card.read((tmp_path / "card.json").read_bytes()).settings == {
        "NCCL_DEBUG_FILE": "FOLDER/000-kill/nccl_%h.log"
    }
    assert {one.name for one in tmp_path.iterdir()} == {"card.json", "000-kill"}


def test_settings_are_what_says_how_ranks_talk() -> None:
    environ = b"NCCL_DEBUG=INFO\0PASSWORD=x\0TORCH_FR_BUFFER_SIZE=2000\0NCCL_X\0"
    assert rank_settings.settings_of(environ) == {"NCCL_DEBUG": "INFO", "TORCH_FR_BUFFER_SIZE": "2000"}


def test_no_secret_among_them_is_kept() -> None:
    given = {
        "NCCL_API_KEY": "s3cr3t",
        "TORCH_NCCL_AUTH_TOKEN": "s3cr3t",
        "TORCH_FR_PASSWORD": "s3cr3t",
        "NCCL_NET": "postgresql://u:s3cr3t@h/x",
        "NCCL_COMM_ID": "u:s3cr3t@10.0.0.1:33",
        "TORCH_DISTRIBUTED_DEBUG": "postgresql://u:s3cr3t@h",
        "TORCH_HUB_TOKEN": "s3cr3t",
        "TORCH_URL": "postgresql://u:s3cr3t@h",
        "TORCH_HOME": "/home/s3cr3t",
    }
    kept = rank_settings.settings_of("\0".join(f"{name}={value}" for name, value in given.items()).encode())
    assert "s3cr3t" not in str(kept)
    assert {name for name in given if name not in kept} == {"TORCH_HUB_TOKEN", "TORCH_URL", "TORCH_HOME"}
    assert kept["NCCL_API_KEY"] == "***"


def test_settings_and_places_stay_as_they_are() -> None:
    given = {
        "NCCL_IB_PKEY": "0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_DEBUG_FILE": "/run/x/20261130T213152Z-3258-1-34f6dcb0/nccl_%h_%p.log",
        "TORCH_INCLUDE_STACK_TRACE": "0",
    }
    environ = "\0".join(f"{name}={value}" for name, value in given.items()).encode()
    assert rank_settings.settings_of(environ) == dict(sorted(given.items()))


# -- the start, and what stands beside the ranks


class Place:
    """A stand of which the tally and the journal are known, and nothing runs."""

    def __init__(self, folder: Path, *, incidents: int) -> None:
        self.wanted, self.places, self.engine = self, self, EngineFolder(folder)
        self.ranks, self.journal, self.incidents = 2, folder / "none.db", incidents
        self.engine.of(1).mkdir(parents=True)
        self.tally = Tally.create(self.engine.of(1) / "tally", 2)

    def about(self, _: int) -> object:
        return self

    def until(self, there: Any, _seconds: float, what: str) -> None:
        if not there():
            raise StandFailed(what)


def start_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(chain_start, "_incidents", lambda stand: stand.incidents)
    order: Any = SimpleNamespace(culprit=1, start_seconds=1.0)
    return chain_start._made(place, order)  # type: ignore[arg-type]


def test_an_engine_that_crashes_by_itself_is_no_fault_that_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, incidents=1)
    place.tally.reach(0, RankState.LOADED)
    with pytest.raises(StandFailed, match="the fault was not made: an incident was opened before rank 1 had it"):
        start_of(place, monkeypatch)


def test_a_start_with_its_fault_counts_from_when_the_others_wait_or_from_the_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, incidents=0)
    place.tally.fault_at = 5_000_000_000
    with pytest.raises(StandFailed, match="waiting for the rank"):
        start_of(place, monkeypatch)
    place.tally.reach(0, RankState.LOADED)
    assert start_of(place, monkeypatch) > 1e9
    place.incidents = 1
    assert start_of(place, monkeypatch) == 5.0


def test_a_foreign_program_that_ends_or_rests_is_said(tmp_path: Path) -> None:
    def foreign(code: str, *, on_gpu: bool = False) -> Foreign:
        program = Launched([sys.executable, "-S", "-c", code], dict(os.environ), tmp_path / "log")
        return Foreign(program, on_gpu, time.monotonic())

    busy, rests = foreign("while True: pass"), foreign("import time; time.sleep(60)")
    on_gpu, ended = foreign("import time; time.sleep(60)", on_gpu=True), foreign("raise SystemExit(3)")
    try:
        assert ended.program.gone()
        time.sleep(1.0)
        rests.rested()  # its own start takes some
        time.sleep(0.5)
        assert busy.rested() == on_gpu.rested() == ()
        assert "it did not work" in rests.rested()[0]
        assert "ended with status 3" in ended.rested()[0]
    finally:
        for one in (busy, rests, on_gpu, ended):
            one.program.kill()
            one.program.gone()


# -- what can be made


def test_every_fault_has_a_chain_and_nothing_else_is_one() -> None:
    chains = {fault.name: chain_of(fault) for fault in able.catalogue()}
    assert "none" not in chains
    assert "idle" not in chains
    assert {name for name, chain in chains.items() if chain is run_slow} == {"slow", "tail"}
    assert chains["init_absent"] is run_start
    assert chains["recorder_timeout"] is run_look
    assert chains["kill"] is chains["skip"] is run_served


def test_what_cannot_be_made_says_why() -> None:
    assert "with gloo; it can with nccl" in able.why_not(FAULTS["graph_stop"], Backend.GLOO, BARE)
    assert "it needs" in able.why_not(FAULTS["link_cut"], Backend.GLOO, BARE)
    assert able.why_not(FAULTS["kill"], Backend.GLOO, BARE) == ""


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), "name the faults to make"),
        (("kil",), "there is no fault named 'kil'"),
        (("none",), "none is no fault"),
        (("kill", "graph_stop"), "cannot be made with gloo"),
    ],
)
def test_an_unknown_fault_is_refused_with_the_reason(names: tuple[str, ...], says: str) -> None:
    with pytest.raises(able.CannotDrill, match=says):
        able.chosen(names, Backend.GLOO)


def test_all_leaves_out_what_cannot_be_made_here_and_says_why() -> None:
    choice = able.chosen(("all",), Backend.GLOO)
    assert {fault.name for fault in choice.faults} | {fault.name for fault, _ in choice.left_out} == {
        fault.name for fault in able.catalogue()
    }
    assert all(why for _, why in choice.left_out)
    assert "graph_stop" in {fault.name for fault, _ in choice.left_out}


def test_a_job_of_a_users_own_can_have_signals_alone() -> None:
    assert [fault.name for fault in able.chosen_own(("freeze", "kill", "freeze"))] == ["freeze", "kill"]
    assert [fault.name for fault in able.chosen_own(("all",))] == ["kill", "freeze"]
    with pytest.raises(able.CannotDrill, match="skip is made within a rank"):
        able.chosen_own(("skip",))
    with pytest.raises(able.CannotDrill, match="no fault named 'x'"):
        able.chosen_own(("x",))


def test_the_controls_of_every_drill_are_the_default() -> None:
    assert tuple(one.name for one in card_controls.chosen("default")) == CONTROLS
    assert card_controls.chosen("none") == ()
    assert set(card_controls.chosen("default")) < set(card_controls.chosen("all"))
    assert [one.name for one in card_controls.chosen("idle,healthy")] == ["idle", "healthy"]
    for word in ("quiet", "", ","):
        with pytest.raises(ValueError, match="there is no control named"):
            card_controls.chosen(word)


# -- the stand without a gateway


def test_the_runbook_without_a_gateway_acts_on_the_group_alone(tmp_path: Path) -> None:
    for gateway, enabled in ((tmp_path / "haproxy.sock", ("traffic", "group")), (None, ("group",))):
        places = Places("llm-0", 8000, gateway, tmp_path / "s.sock", tmp_path, tmp_path / "i.db", tmp_path)
        config = read(settings(places), "incident.yaml")
        assert config.enable == enabled
        assert len(config.instances["llm-0"].traffic) == len(enabled) - 1
        assert objections(config) == []
