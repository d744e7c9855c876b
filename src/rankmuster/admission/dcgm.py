"""What `dcgmi diag -r N -j` says, read without trust: its JSON has had two shapes.

Up to DCGM 3 it is `{"DCGM GPU Diagnostic": {"test_categories": [{"category": ..., "tests": [{"name": ..., "results":
[{"gpu_id": "0", "status": "Pass", "warnings": "..."}]}]}]}}` behind lines of text; from DCGM 4 on
`{"DCGM Diagnostic": {..., "test_categories": [{"tests": [{"name", "results": [{"entity_group": "GPU", "entity_id": 0,
"status", "warnings": [{"warning", "error_code"}]}], "test_summary": {"status"}}]}]}}`
(NVIDIA/DCGM dcgmi/Diag.cpp, and its documentation of `-j`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.unknown import Unknown

MOST_RESULTS = 4096
"""Results kept: some twenty tests on at most 72 GPUs."""

MOST_TEXT = 400
_ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
_STATES = {
    "pass": CheckState.PASS,
    "fail": CheckState.FAIL,
    "warn": CheckState.WARN,
    "skip": CheckState.UNKNOWN,
    "not_run": CheckState.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class DcgmResult:
    """One test on one GPU (None: on the node). `status`: pass, fail, warn, skip, not_run, or its own word."""

    test: str
    gpu: int | None
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class DcgmReport:
    """`problem`: why the report is not whole (damaged JSON, an error of DCGM's); then `results` may be empty.

    `hung`: ended by the time limit.
    """

    version: str | None
    level: int | None
    results: tuple[DcgmResult, ...]
    problem: str | None = None
    hung: bool = False


def read_dcgm(output: bytes, level: int | None = None) -> DcgmReport:
    """Never raises: what cannot be read is the report's `problem`."""
    text = output.decode("utf-8", errors="replace")
    start = text.find("{")
    if start < 0:
        said = " ".join(text.split())[:MOST_TEXT]
        return DcgmReport(None, level, (), f"it printed no JSON ({said})" if said else "it printed nothing")
    try:
        document, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        return DcgmReport(None, level, (), f"its JSON cannot be read ({str(error)[:MOST_TEXT]})")
    root = next((document[name] for name in _ROOTS if isinstance(document.get(name), Mapping)), None)
    if root is None:
        return DcgmReport(None, level, (), f"its JSON has none of {', '.join(_ROOTS)}")
    version = root.get("version") or root.get("DCGM Version")
    complaint = root.get("runtime_error") or root.get("error") or root.get("runtimeError")
    results = tuple(result for result, _ in zip(_results(root), range(MOST_RESULTS), strict=False))
    problem = str(complaint)[:MOST_TEXT] if complaint else None
    if not results and problem is None:
        problem = "its JSON holds no result of any test"
    return DcgmReport(str(version) if version else None, level, results, problem)


def _results(root: Mapping[str, Any]) -> Iterator[DcgmResult]:
    for category in _objects(root.get("test_categories")):
        for test in _objects(category.get("tests")):
            name = str(test.get("name") or "unnamed test")[:80]
            found = False
            for result in _objects(test.get("results")):
                found = True
                yield DcgmResult(name, _gpu(result), _status(result.get("status")), _words(result))
            summary = test.get("test_summary")
            if not found and isinstance(summary, Mapping):
                yield DcgmResult(name, None, _status(summary.get("status")), _words(summary))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, Mapping))


def _gpu(result: Mapping[str, Any]) -> int | None:
    if "entity_id" in result:
        said = result["entity_id"] if str(result.get("entity_group", "GPU")).upper() == "GPU" else None
    else:
        said = result.get("gpu_id", result.get("gpu_ids"))
    words = str(said)
    return int(words) if words.isdecimal() and len(words) < 6 else None


def _status(value: object) -> str:
    return str(value or "no status").strip().lower().replace(" ", "_")[:40]


def _words(result: Mapping[str, Any]) -> str:
    said = result.get("warnings") or result.get("info") or ""
    parts = said if isinstance(said, list) else [said]
    words = [str(part.get("warning", "") if isinstance(part, Mapping) else part) for part in parts]
    return " ".join(" ".join(words).split())[:MOST_TEXT]


def dcgm_checks(report: DcgmReport | Unknown | None) -> list[Check]:
    """One check for all tests that passed, one for each that did not. Not asked for, or not installed: no fault."""
    group = CheckGroup.HARDWARE
    if report is None:
        return []
    if isinstance(report, Unknown):
        return [Check("dcgm", group, CheckState.UNKNOWN, "the node", f"dcgmi diag was not run: {report.reason}")]
    name = "dcgmi diag" + (f" -r {report.level}" if report.level is not None else "")
    if report.hung:
        words = f"{name} did not end in its time: {report.problem or 'it was ended'}"
        advice = "a GPU or its driver blocks: look for Xid 79, 119 or 120 in the kernel log"
        return [Check("dcgm", group, CheckState.HUNG, "the node", words, advice, required=True)]
    checks = []
    passed = [result for result in report.results if _STATES.get(result.status) is CheckState.PASS]
    if passed:
        tests = len({result.test for result in passed})
        checks.append(Check("dcgm", group, CheckState.PASS, "the node", f"{name}: {tests} test(s) passed"))
    for result in report.results:
        state = _STATES.get(result.status, CheckState.ERROR)
        if state in (CheckState.FAIL, CheckState.WARN, CheckState.ERROR):
            where = f"GPU {result.gpu}" if result.gpu is not None else "the node"
            words = f"{name}: {result.test}: {result.status}" + (f": {result.text}" if result.text else "")
            checks.append(Check("dcgm", group, state, where, words, required=state is not CheckState.WARN))
    skipped = sorted({result.test for result in report.results if _STATES.get(result.status) is CheckState.UNKNOWN})
    if skipped:
        words = f"{name}: not run: {', '.join(skipped[:8])}"
        checks.append(Check("dcgm", group, CheckState.UNKNOWN, "the node", words))
    if report.problem is not None:
        words = f"{name}: {report.problem}"
        checks.append(Check("dcgm", group, CheckState.ERROR, "the node", words, "run it by hand", required=True))
    return checks
