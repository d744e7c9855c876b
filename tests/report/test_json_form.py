"""The JSON form keeps the schema's promises to programs."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_from_plain
from rankmuster.report.json_form import render


def test_it_has_the_schemas_names_and_ends_with_a_newline(verdict: Verdict) -> None:
    text = render(verdict)
    read = json.loads(text)
    assert text.endswith("}\n")
    assert read["schema"] == "rankmuster.verdict/1"
    assert read["class"] == "collective_desync"
    assert set(read["window"]) == {"from", "to", "fault_at"}
    assert read["suspects"][2]["role"] == "culprit"


def test_what_is_unknown_is_null_not_absent(blind_verdict: Verdict) -> None:
    read = json.loads(render(blind_verdict))
    assert read["subclass"] is None
    assert read["first_divergence"] is None
    assert read["window"] == {"from": None, "to": None, "fault_at": None}


def test_it_reads_back_as_the_same_verdict(verdict: Verdict) -> None:
    assert verdict_from_plain(json.loads(render(verdict))) == verdict


def test_the_same_verdict_gives_the_same_bytes_in_the_schemas_order(verdict: Verdict) -> None:
    assert render(verdict) == render(copy.deepcopy(verdict))
    assert list(json.loads(render(verdict)))[:4] == ["schema", "instance", "deployment", "incarnation"]


def test_undecodable_names_and_infinite_times_are_still_json(verdict: Verdict) -> None:
    window = replace(verdict.window, fault_at=float("nan"))
    text = render(replace(verdict, instance="a\udcff", window=window))
    assert text.encode("ascii")
    assert json.loads(text)["window"]["fault_at"] is None
