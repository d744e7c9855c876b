"""Each item of the launch checklist: where it passes, fails, cannot be told, is waived, and the waiver has ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gate_world import HOST, World, drill_run, fingerprint, score_card, world
from rankmuster.cli.gate_policy import runbook_of_policy
from rankmuster.gate.check import ITEMS, check
from rankmuster.gate.config_read import read, waivers_of
from rankmuster.gate.sources import Gathering, SourceRefused
from rankmuster.gate.waivers import LONGEST_DAYS, NEVER
from rankmuster.gate.workload import NotDeployable
from rankmuster.model.release import Checklist, Item, ItemResult, ItemState
from rankmuster.report.fingerprint_yaml import as_yaml

NOW = 1_796_000_000.0  # 2026-11-29
DAY = 86_400.0


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path, NOW)


def checklist(made: World, now: float = NOW) -> Checklist:
    config = read(made.config.read_text(), "gate.yaml")
    facts = Gathering(config, made.folder, None, runbook_of_policy).facts(now)
    return check(facts, waivers_of(config), "1.0")


def answer(made: World, item: Item, now: float = NOW) -> ItemResult:
    return next(one for one in checklist(made, now).results if one.item is item)


def said(result: ItemResult) -> str:
    return "\n".join((result.statement, *result.details, *result.todo, result.note))


def test_all_items_pass_where_all_is_proven(made):
    found = checklist(made)
    assert [(one.item.value, one.state.value) for one in found.results] == [(item.value, "pass") for item in Item]
    assert found.passed
    assert all(one.proofs for one in found.results), "each rests on evidence that is named with its hash"
    assert not any(one.todo for one in found.results)


def test_every_item_of_the_list_has_a_check():
    assert list(ITEMS) == list(Item)


# -- what makes each of them fail: (item, what is changed, a word of what it says)

Change = Callable[[World], None]


def _key(*path: Any, value: Any = None) -> Callable[[dict[str, Any]], None]:
    """Sets, or with None takes away, a value deep in settings."""

    def change(settings: dict[str, Any]) -> None:
        inner: Any = settings
        for key in path[:-1]:
            inner = inner[key]
        if value is None:
            inner.pop(path[-1], None)
        else:
            inner[path[-1]] = value

    return change


def _nodes(made: World, **changes: Any) -> None:
    found = replace(fingerprint(), **changes)
    (made.folder / "nodes" / "other.yaml").write_text(as_yaml(found))


def _runs(*names: str, **changes: Any) -> Change:
    def change(made: World) -> None:
        whole = score_card(fingerprint(), NOW)
        runs = tuple(replace(run, **changes) if run.name in names else run for run in whole.runs)
        made.card(runs=runs)

    return change


def _tagged(made: World) -> None:
    text = (made.folder / "llm.yaml").read_text()
    at = text.index("vllm/vllm-openai@")
    (made.folder / "llm.yaml").write_text(text[:at] + "vllm/vllm-openai:v0.33" + text[text.index("\n", at) :])


FAILS: list[tuple[Item, Change, str]] = [
    (Item.ARTEFACT, _tagged, "a tag can be moved"),
    (Item.ARTEFACT, lambda made: made.deploy(NCCL_ALGO="Ring"), "NCCL_ALGO was not set in the recording"),
    (Item.ARTEFACT, lambda made: made.deploy(NCCL_NVLS_ENABLE="1"), "NCCL_NVLS_ENABLE was '0' in the recording"),
    (
        Item.ARTEFACT,
        lambda made: made.instance(_key("environment", "NCCL_PROTO", value="LL")),
        "NCCL_PROTO was set in the recording",
    ),
    (Item.FINGERPRINTS, lambda made: (made.folder / "history.db").unlink(), "history"),
    (Item.BENCHMARKS, lambda made: made.settings(history="empty.db"), "empty.db"),
    (Item.TOPOLOGY, lambda made: made.settings(expect=["0123456789abcdef"]), "expected is"),
    (Item.RAS, lambda made: made.deploy(NCCL_RAS_ADDR="0.0.0.0:28163"), "NCCL_RAS_ADDR"),
    (Item.RAS, lambda made: made.deploy(NCCL_RAS_ENABLE="0"), "RAS"),
    (Item.RAS, lambda made: made.instance(_key("instance")), "no instance's name"),
    (
        Item.RAS,
        lambda made: made.instance(lambda facts: (facts.pop("deployment"), facts.pop("incarnation"))),
        "neither a deployment nor an incarnation",
    ),
    (Item.RECORDER_DRILL, _runs("recorder_timeout", planes={"ras": "spoke"}), "the recorder was not there"),
    (Item.RECORDER_DRILL, _runs("recorder_timeout", backend="gloo"), "gloo"),
    (Item.RECORDER_DRILL, _runs("recorder_timeout", wrongs=("nothing came",)), "nothing came"),
    (Item.RECORDER_DRILL, _runs("recorder_timeout", name="stop"), "no time-out drill"),
    (Item.DRILL, lambda made: made.card(made_at=NOW - 91 * DAY), "older than 90 days"),
    (Item.DRILL, lambda made: made.card(settings={"NCCL_NVLS_ENABLE": "1"}), "other settings"),
    (Item.DRILL, lambda made: made.card(fingerprint={"class_hash": "sha256:" + "0" * 64}), "no drill of class"),
    (Item.DRILL, _runs("stop", "skip", culprits=(0,), culprit_wrong=True, culprit_right=False), "did not pass"),
    (Item.LOGGING, lambda made: made.deploy(NCCL_DEBUG="TRACE"), "TRACE"),
    (Item.LOGGING, lambda made: made.deploy(NCCL_DEBUG=None), "NCCL_DEBUG not set"),
    (Item.RUNBOOK, lambda made: made.incident(_key("enable", value=["traffic"])), "group only observes"),
    (Item.RUNBOOK, lambda made: made.incident(_key("instances", "llm-0", "probe")), "not asked whether it serves"),
    (Item.RUNBOOK, lambda made: made.settings(instance="llm-9"), "has no instance llm-9"),
    (Item.RUNBOOK, lambda made: made.incident(_key("total_seconds", value=60.0)), "the total deadline is 60 s"),
    (Item.RUNBOOK, lambda made: made.incident(_key("budget", value={"verify": 3000.0})), "traffic may be away"),
    (Item.RUNBOOK, lambda made: made.incident(_key("budget", value={"evidence": 1.0})), "evidence has 1 s"),
    (Item.READMISSION, lambda made: made.incident(_key("enable", value=["traffic", "group"])), "retest only observes"),
    (Item.CALIBRATION, lambda made: made.deploy(TORCH_FR_BUFFER_SIZE="2000"), "TORCH_FR_BUFFER_SIZE=2000 is less"),
    (Item.CALIBRATION, lambda made: made.deploy(TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC="10"), "HEARTBEAT"),
    (Item.CALIBRATION, lambda made: made.deploy(TORCH_INCLUDE_STACK_TRACE="1"), "0 is asked for"),
]


@pytest.mark.parametrize(
    ("item", "change", "word"), FAILS, ids=[f"{one.value}-{n}" for n, (one, _, _) in enumerate(FAILS)]
)
def test_it_fails_and_says_what_makes_it_pass(made, item, change, word):
    change(made)
    whole = checklist(made)
    found = next(one for one in whole.results if one.item is item)
    assert not found.state.lets_through
    assert word in said(found)
    assert found.todo
    assert not whole.passed


MISSING: list[tuple[Item, str]] = [
    (Item.ARTEFACT, "fingerprints"),
    (Item.FINGERPRINTS, "fingerprints"),
    (Item.FINGERPRINTS, "history"),
    (Item.TOPOLOGY, "fingerprints"),
    (Item.BENCHMARKS, "bundle"),
    (Item.BENCHMARKS, "history"),
    (Item.RAS, "bundle"),
    (Item.RECORDER_DRILL, "drills"),
    (Item.DRILL, "drills"),
    (Item.LOGGING, "runbook"),
    (Item.RUNBOOK, "runbook"),
    (Item.READMISSION, "runbook"),
    (Item.CALIBRATION, "bundle"),
]


@pytest.mark.parametrize(("item", "key"), MISSING, ids=[f"{item.value}-{key}" for item, key in MISSING])
def test_without_the_evidence_it_cannot_be_told_and_is_no_pass(made, item, key):
    made.settings(**{key: None})
    found = answer(made, item)
    assert found.state is ItemState.UNKNOWN
    assert found.todo


WAIVABLE = [one for one in Item if one not in (*NEVER, Item.RAS)]  # of RAS below


def _waiver(item: Item, until: str, **more: Any) -> dict[str, Any]:
    return {"item": item.value, "owner": "jane", "reason": "the lab moves", "until": until, **more}


def _broken(made: World, item: Item) -> None:
    change = next(change for one, change, _ in FAILS if one is item)
    change(made)


@pytest.mark.parametrize("item", WAIVABLE, ids=[one.value for one in WAIVABLE])
def test_an_owner_may_waive_it_for_a_while(made, item):
    _broken(made, item)
    made.settings(waivers=[_waiver(item, "2026-12-24")])
    found = answer(made, item)
    assert found.state is ItemState.WAIVED
    assert found.waiver.owner == "jane"
    assert found.todo, "what is to be done is said all the same"
    last_moment = 1_798_156_799.0  # 2026-12-24T23:59:59Z
    assert answer(made, item, last_moment).state is ItemState.WAIVED
    ended = answer(made, item, last_moment + 2)
    assert not ended.state.lets_through
    assert "ended on 2026-12-24" in ended.note


@pytest.mark.parametrize("item", list(NEVER), ids=[one.value for one in NEVER])
def test_what_all_else_rests_on_cannot_be_waived(made, item):
    _broken(made, item)
    made.settings(waivers=[_waiver(item, "2026-12-24")])
    found = answer(made, item)
    assert not found.state.lets_through
    assert NEVER[item] in found.note


def test_a_recording_and_a_drill_of_a_quarter_ago_prove_nothing_of_today(made):
    later = NOW + 100 * DAY
    assert "older than 90 days" in said(answer(made, Item.ARTEFACT, later))
    assert "older than 90 days" in said(answer(made, Item.RECORDER_DRILL, later))
    made.settings(most_age_days=120.0)
    assert checklist(made, later).passed


def test_a_waiver_of_another_release_or_for_too_long_does_not_count(made):
    _broken(made, Item.DRILL)
    made.settings(waivers=[_waiver(Item.DRILL, "2026-12-24", release="llm-1")])
    assert "is for llm-1" in answer(made, Item.DRILL).note
    made.settings(waivers=[_waiver(Item.DRILL, "2027-12-24")])
    assert f"at most {LONGEST_DAYS:.0f} days" in answer(made, Item.DRILL).note
    made.settings(waivers=[_waiver(Item.DRILL, "2027-12-24"), _waiver(Item.DRILL, "2026-12-24")])
    assert answer(made, Item.DRILL).state is ItemState.WAIVED


def test_a_waiver_of_what_passes_is_said_to_be_needless(made):
    made.settings(waivers=[_waiver(Item.DRILL, "2026-12-24")])
    found = answer(made, Item.DRILL)
    assert found.state is ItemState.PASS
    assert "not needed" in found.note


def test_nodes_that_differ_are_told_apart(made):
    _nodes(made, host="node8", topology_hash="sha256:" + "0" * 64)
    found = answer(made, Item.TOPOLOGY)
    assert found.state is ItemState.FAIL
    assert "differ in topology" in said(found)
    assert "node8" in said(found)


def test_a_fingerprint_that_was_edited_is_refused(made):
    path = made.folder / "nodes" / "node7.yaml"
    path.write_text(path.read_text().replace("2.28.9", "2.29.1"))
    with pytest.raises(SourceRefused, match=r"node7\.yaml"):
        checklist(made)


def test_a_host_of_the_recording_without_a_fingerprint_is_named(made):
    made.instance(lambda facts: [one.update(host=f"node{7 + one['rank'] // 2}") for one in facts["processes"]])
    for path in (made.folder / "bundle").rglob("*"):
        if path.parent.name == "ras":
            path.unlink()  # they name the host by its address
    found = answer(made, Item.FINGERPRINTS)
    assert found.state is ItemState.FAIL
    assert "node8" in said(found)


def test_two_hosts_of_one_group_need_a_common_admission(made):
    made.instance(lambda facts: [one.update(host=f"node{7 + one['rank'] // 2}") for one in facts["processes"]])
    for path in (made.folder / "bundle").rglob("*"):
        if path.parent.name == "ras":
            path.unlink()
    found = answer(made, Item.BENCHMARKS)
    assert found.state is ItemState.FAIL
    assert "never measured together: node7 and node8" in said(found)
    assert "one healthy node proves nothing of the pair" in said(found)


def test_a_tampered_score_card_is_refused_with_the_reason(made):
    path = made.folder / "card.json"
    card = json.loads(path.read_text())
    card["runs"][0]["detected_seconds"] = 1.0
    path.write_text(json.dumps(card))
    with pytest.raises(SourceRefused, match="changed after it was written"):
        checklist(made)


def test_a_drill_without_controls_does_not_decide(made):
    made.card(runs=tuple(drill_run(name) for name in ("stop", "kill", "recorder_timeout")))
    found = answer(made, Item.DRILL)
    assert found.state is ItemState.UNKNOWN


def test_a_policy_of_a_cluster_is_a_runbook_too(made):
    policy = {
        "apiVersion": "rankmuster.io/v1alpha1",
        "kind": "CommunicationPolicy",
        "metadata": {"name": "llm"},
        "spec": {
            "selector": {"matchLabels": {"app": "llm"}},
            "enable": ["traffic", "group", "node", "retest"],
            "traffic": {"readinessGate": True},
            "probe": {"port": 8000},
        },
    }
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    made.settings(runbook="policy.yaml")
    assert answer(made, Item.RUNBOOK).state is ItemState.PASS
    assert answer(made, Item.READMISSION).state is ItemState.PASS
    policy["spec"]["paused"] = True
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    assert "paused" in said(answer(made, Item.RUNBOOK))
    policy["spec"]["nonsense"] = True
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    assert answer(made, Item.RUNBOOK).state is ItemState.UNKNOWN


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no container"),
        ("kind: Pod\nspec: {containers: [{name: a, image: x}, {name: b, image: y}]}", "several in a pod"),
        (
            "kind: Pod\nspec: {containers: [{name: a, env: [{name: NCCL_ALGO, value: 1}]}]}",
            "NCCL_ALGO is not quoted",
        ),
        (
            "kind: Pod\nspec: {containers: [{name: a, env: [{name: NCCL_ALGO}, {name: NCCL_ALGO, value: y}]}]}",
            "set twice",
        ),
        ("kind: Pod\nspec: {containers: [{name: a, env: {NCCL_ALGO: x}}]}", "env is no list"),
        ("kind: Pod\nspec: {containers: [{name: a}]}\n---\n{", "a part of it"),
    ],
)
def test_a_workload_that_cannot_be_put_back_exactly_is_refused(made, text, word):
    (made.folder / "llm.yaml").write_text(text)
    from rankmuster.environment.given import Unreadable

    with pytest.raises((NotDeployable, Unreadable)) as error:
        checklist(made)
    assert word in str(error.value) or "empty" in str(error.value)


def test_what_sets_variables_and_is_not_seen_fails(made):
    given = yaml.safe_load((made.folder / "llm.yaml").read_text())
    container = given["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][1]
    container["envFrom"] = [{"secretRef": {"name": "more"}}]
    (made.folder / "llm.yaml").write_text(yaml.safe_dump(given))
    found = answer(made, Item.ARTEFACT)
    assert found.state is ItemState.FAIL
    assert "envFrom" in said(found)


def test_the_node_in_use_must_have_been_admitted(made):
    import sqlite3

    with sqlite3.connect(made.folder / "history.db") as database:
        database.execute("delete from rankmuster_admitted_node")
        database.execute("delete from rankmuster_admission")
    found = answer(made, Item.READMISSION)
    assert found.state is ItemState.FAIL
    assert f"never admitted by a benchmark: {HOST}" in said(found)


def test_ras_that_is_off_may_be_waived_and_ras_that_strangers_reach_may_not(made):
    made.settings(waivers=[_waiver(Item.RAS, "2026-12-24")])
    made.deploy(NCCL_RAS_ENABLE="0")
    made.instance(_key("environment", "NCCL_RAS_ENABLE", value="0"))
    assert answer(made, Item.RAS).state is ItemState.WAIVED
    made.deploy(NCCL_RAS_ADDR="0.0.0.0:28163")
    found = answer(made, Item.RAS)
    assert found.state is ItemState.FAIL
    assert "others reach" in found.note


def test_an_nccl_that_ran_and_is_not_the_nodes_is_told(made):
    for path in (made.folder / "bundle" / "ras").iterdir():
        path.write_text(path.read_text().replace("2.28.9", "2.27.3"))
    assert "NCCL 2.27.3 answered in the recording" in said(answer(made, Item.ARTEFACT))
