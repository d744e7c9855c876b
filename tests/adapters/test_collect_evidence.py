"""Evidence of real processes, here and "elsewhere"; collectors that hang, are killed, or bring nothing."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "collect"))

from small_instance import small_instance

from rankmuster.adapters.collect_evidence import CollectEvidence, existing_bundle
from rankmuster.adapters.collect_here import _inert, _without, find_bundle
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending

QUICK = ("--look", "0.5", "--no-stacks", "--dumps", "never", "--ras-risk", "never")

THERE = ("/usr/bin/env",)
"""A way to another host that leads to this one."""


def soon(seconds: float = 25.0) -> Deadline:
    return Deadline.after(seconds)


def test_a_live_instance_is_saved_and_judged(tmp_path: Path) -> None:
    with small_instance(moving=False) as small:
        evidence = CollectEvidence(options=(*QUICK, "--metrics-url", small.url))
        answer = evidence.collect(small.name, None, small.pids, str(tmp_path / "evidence"), soon(), stopped=True)
    assert answer.ending is Ending.DONE, answer
    bundle = tmp_path / "evidence" / "bundle"
    assert answer.data["bundle"] == str(bundle)
    assert answer.data["sha256"] == hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    assert json.loads((bundle / "instance.json").read_text())["instance"] == small.name

    again = evidence.collect(small.name, None, (), str(tmp_path / "evidence"), soon(), stopped=True)
    assert again.ending is Ending.DONE
    assert "there already" in again.note
    assert again.data["sha256"] == answer.data["sha256"]

    verdict = evidence.diagnose(str(bundle), str(tmp_path / "diagnosis"), soon())
    assert verdict.ending is Ending.DONE, verdict
    path = Path(verdict.data["verdict"])
    assert json.loads(path.read_text())["instance"] == small.name
    assert json.loads(path.read_text())["class"] == verdict.data["class"]


def test_hosts_are_merged_and_a_host_that_is_away_is_said(tmp_path: Path) -> None:
    reach = tmp_path / "reach"
    reach.write_text('#!/bin/sh\nhost=$1; shift\n[ "$host" = away ] && { echo no route >&2; exit 255; }\nexec "$@"\n')
    reach.chmod(0o755)
    with small_instance(moving=False) as small:
        options = (*QUICK, "--metrics-url", small.url)
        evidence = CollectEvidence(reach=(str(reach), "{node}"), hosts=("n2", "away"), options=options)
        answer = evidence.collect(small.name, None, small.pids, str(tmp_path / "evidence"), soon(), stopped=True)
    assert answer.ending is Ending.PARTIAL, answer
    assert answer.data["missing"] == ["away: nothing had begun there (no route)"]
    assert answer.data["bundle"] == str(tmp_path / "evidence" / "bundle")
    assert len(list((tmp_path / "evidence" / "bundle" / "nodes").iterdir())) == 2
    assert evidence.diagnose(answer.data["bundle"], str(tmp_path / "diagnosis"), soon()).ending is Ending.DONE


def test_a_host_that_hangs_or_sends_garbage_costs_no_more_than_the_deadline(tmp_path: Path) -> None:
    garbage = tmp_path / "program"
    garbage.write_text('#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\nhead -c 3000 /dev/urandom > "$2"\n')
    garbage.chmod(0o755)
    with small_instance(moving=False) as small:
        more = {"reach": THERE, "options": (*QUICK, "--metrics-url", small.url)}
        hangs = CollectEvidence(hosts=("n2",), program=("sleep", "60"), **more)
        begun = time.monotonic()
        answer = hangs.collect(small.name, None, small.pids, str(tmp_path / "a"), soon(12.0), stopped=True)
        assert time.monotonic() - begun < 18.0
        assert answer.ending is Ending.PARTIAL, answer
        assert answer.data["bundle"] == str(tmp_path / "a" / "nodes" / "here")

        broken = CollectEvidence(hosts=("n2",), program=(str(garbage),), **more)
        answer = broken.collect(small.name, None, small.pids, str(tmp_path / "b"), soon(), stopped=True)
    assert answer.ending is Ending.PARTIAL, answer
    assert "were not merged" in answer.note
    assert answer.data["bundle"] == str(tmp_path / "b" / "nodes" / "here")


def test_an_instance_that_is_gone_leaves_the_node_s_own(tmp_path: Path) -> None:
    answer = CollectEvidence(options=QUICK).collect(
        "nobody-at-all", None, (), str(tmp_path / "e"), soon(), stopped=True
    )
    assert answer.ending is Ending.PARTIAL, answer
    assert "no process of the instance was found" in answer.note
    assert find_bundle(tmp_path / "e" / "bundle") is not None


def test_what_a_killed_collection_left_is_evidence(tmp_path: Path) -> None:
    with small_instance(moving=False) as small:
        options = (*QUICK, "--metrics-url", small.url, "--deadline", "60", "--look", "20")
        answer = CollectEvidence(options=options).collect(
            small.name, None, small.pids, str(tmp_path / "e"), soon(6.0), stopped=True
        )
    assert answer.ending in (Ending.PARTIAL, Ending.DONE), answer
    assert Path(answer.data["bundle"]).is_dir()
    assert existing_bundle(str(tmp_path / "e")) == answer.data["bundle"]


def test_a_folder_that_was_never_closed_is_found(tmp_path: Path) -> None:
    (tmp_path / "bundle.1.part").mkdir()
    (tmp_path / "bundle.2.part" / "engine").mkdir(parents=True)
    assert find_bundle(tmp_path / "bundle") == tmp_path / "bundle.2.part"
    assert find_bundle(tmp_path / "none" / "bundle") is None


def test_without_time_there_is_nothing(tmp_path: Path) -> None:
    answer = CollectEvidence(options=QUICK).collect(
        "nobody", None, (), str(tmp_path / "e"), Deadline.after(0.3), stopped=True
    )
    assert answer.ending is Ending.TIMED_OUT, answer
    assert "no evidence was saved" in answer.note


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    evidence = CollectEvidence()
    assert evidence.collect("x", None, (), str(tmp_path / "file" / "e"), soon(), stopped=True).ending is Ending.FAILED
    assert evidence.diagnose(str(tmp_path), str(tmp_path / "file" / "d"), soon()).ending is Ending.FAILED


@pytest.mark.parametrize("what", ["missing", "empty", "file"])
def test_what_is_no_bundle_gives_no_verdict(tmp_path: Path, what: str) -> None:
    bundle = tmp_path / "bundle"
    if what == "empty":
        bundle.mkdir()
    elif what == "file":
        bundle.write_bytes(b"\0" * 1000)
    answer = CollectEvidence().diagnose(str(bundle), str(tmp_path / "d"), soon())
    assert answer.ending is Ending.FAILED or answer.data["class"] in ("inconclusive", "blind"), answer


def test_a_diagnosis_without_time_is_ended(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("nothing")
    answer = CollectEvidence().diagnose(str(tmp_path / "log"), str(tmp_path / "d"), Deadline.after(0.1))
    assert answer.ending is Ending.TIMED_OUT


def test_passwords_stay_out_of_the_command_line() -> None:
    options = ("--metrics-url", "http://u:secret@127.0.0.1:8000/metrics", "--look", "1")
    assert _inert(options) == ["--metrics-url", "http://127.0.0.1:8000/metrics", "--look", "1"]
    assert _without((*options, "--metrics-url=x"), ("--metrics-url",)) == ["--look", "1"]
