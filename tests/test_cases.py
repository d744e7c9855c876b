"""The captured cases are the mirror: each packed case is diagnosed and compared with what really happened.

`tests/cases/NAME/input.tar.zst` holds what an operator had, `truth.json` what is right: accept_class; culprits
(exactly these ranks) or culprits_allowed (any of these or none); where known subclass, boundary and progress (right
answers), seq, op and missing of the first divergence, hosts_all, and mentions (patterns in the verdict's own words).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_to_plain
from wording import slips

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/truth.json"))


def wrongs(verdict: Verdict, truth: dict[str, Any]) -> list[str]:
    """Everything in which the verdict differs from the truth; empty when it is right."""
    named = sorted(s.rank for s in verdict.suspects if s.role is Role.CULPRIT and s.rank is not None)
    first = verdict.first_divergence
    found = []
    if verdict.class_.value not in truth["accept_class"]:
        found.append(f"class {verdict.class_.value}, not {truth['accept_class']}")
    if "culprits" in truth and named != sorted(truth["culprits"]):
        found.append(f"culprits {named}, not {truth['culprits']}")
    if set(named) - set(truth.get("culprits", named)) - set(truth.get("culprits_allowed", named)):
        found.append(f"culprits {named} are not allowed")
    said = {
        "subclass": verdict.subclass.value if verdict.subclass else None,
        "progress": verdict.progress.value,
        "boundary": verdict.recovery.boundary.value,
    }
    found += [
        f"{field} {value}, not {truth[field]}"
        for field, value in said.items()
        if value not in truth.get(field, [value])
    ]
    if missing := set(truth.get("hosts_all", [])) - set(verdict.suspect_hosts):
        found.append(f"suspect_hosts without {sorted(missing)}")
    if "seq" in truth and (first is None or first.sequence != truth["seq"]):
        found.append(f"first divergence {first}, not #{truth['seq']}")
    if "op" in truth and (first is None or first.op != truth["op"]):
        found.append(f"first divergence {first}, not {truth['op']}")
    if "missing" in truth and (first is None or list(first.missing) != truth["missing"]):
        found.append(f"first divergence {first}, not missing {truth['missing']}")
    own = verdict_to_plain(verdict)
    del own["planes"]
    own["findings"] = [finding["statement"] for finding in own["findings"]]
    text = json.dumps(own, ensure_ascii=False)
    found += [f"says nothing of {pattern}" for pattern in truth.get("mentions", []) if not re.search(pattern, text)]
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_what_happened(case: Path) -> None:
    truth = json.loads((case / "truth.json").read_text())
    verdict = diagnose(load(case / "input.tar.zst")).verdict
    assert wrongs(verdict, truth) == []
    assert slips(verdict) == []
    expected = {"healthy": 0, "inconclusive": 2, "blind": 2}.get(verdict.class_.value, 1)
    assert verdict.exit_status == expected


def test_there_are_cases() -> None:
    assert len(CASES) >= 50
