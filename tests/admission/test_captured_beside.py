"""Captured text beside a fingerprint counts: for the same GPUs where it is younger, and as an error for other ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import PROFILE, SAMPLES, START, node_path
from rankmuster.admission.past import NoPast
from rankmuster.admission.plan import Plan
from rankmuster.admission.recorded import NotRecorded, read_recorded
from rankmuster.admission.recorded_sources import recorded_sources
from rankmuster.admission.run import admit
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.model.admission import AdmissionRecord, CheckState, Decision
from rankmuster.report.fingerprint_yaml import as_yaml

Answer = Callable[..., AdmissionRecord]


@pytest.fixture
def answer(tmp_path: Path) -> Answer:
    """The answer to a fast run, a clean fingerprint taken an hour before `START`, and one text beside it."""
    fingerprint = tmp_path / "node7.yaml"
    clean = replace(node_path(), taken_at=START - 3600)
    fingerprint.write_text(as_yaml(fingerprint_of(clean, profile_key=PROFILE.key)))

    def go(name: str, written: str, instead: str, at: float = START) -> AdmissionRecord:
        text = (SAMPLES / name).read_text()
        assert written in text
        text = "".join(line for line in text.splitlines(True) if not line.startswith("Timestamp"))
        beside = tmp_path / name
        beside.write_text(text.replace(written, instead, 1))
        os.utime(beside, (at, at))
        found = read_recorded([SAMPLES / "nt_ar_1.txt", fingerprint, beside])
        sources = recorded_sources(found, NoPast(), PROFILE, {}, lambda: START)
        return admit(Plan(PROFILE, retests=0), sources).record

    return go


PENDING = (
    "        Pending                                        : No",
    "        Pending                                        : Yes",
)


@pytest.mark.parametrize(
    ("name", "written", "instead", "words"),
    [
        ("smi_q.txt", *PENDING, "a row waits for a reset"),
        (
            "smi_q.txt",
            "HW Thermal Slowdown                        : Not Active",
            "HW Thermal Slowdown                        : Active",
            "clocks held back: ",
        ),
        ("nvlink_s.txt", "Link 0: 26.562 GB/s", "Link 0: <inactive>", "NVLink 0 down"),
    ],
)
def test_what_it_shows_of_the_fingerprints_gpus_refuses(
    name: str, written: str, instead: str, words: str, answer: Answer
) -> None:
    record = answer(name, written, instead)
    said = [check for check in record.checks if words in check.statement]
    assert said, [check.statement for check in record.checks]
    assert said[0].state in (CheckState.FAIL, CheckState.WARN)
    assert said[0].subject.startswith("GPU 0")


def test_a_fault_decides(answer: Answer) -> None:
    assert answer("smi_q.txt", *PENDING).decision is Decision.FAIL


def test_what_is_older_than_the_fingerprint_does_not_speak_against_it(answer: Answer) -> None:
    assert answer("smi_q.txt", *PENDING, at=START - 7200).decision is Decision.PROVISIONAL


def test_text_of_another_nodes_gpus_is_refused_with_both(answer: Answer) -> None:
    with pytest.raises(NotRecorded) as raised:
        answer("smi_q.txt", "GPU-287552fe-ad00-1d4d-28ae-b34ca7e1f7ca", "GPU-00000000-ad00-1d4d-28ae-b34ca7e1f7ca")
    assert "smi_q.txt is of GPU GPU-00000000" in str(raised.value)
    assert "the fingerprint beside it of GPU-287552fe" in str(raised.value)


def test_a_mode_that_was_switched_in_between_asks_for_another_fingerprint(answer: Answer) -> None:
    written = "    MIG Mode\n        Current                                        : Disabled"
    with pytest.raises(NotRecorded, match="MIG Enabled, Disabled in the fingerprint"):
        answer("smi_q.txt", written, written.replace("Disabled", "Enabled"))
