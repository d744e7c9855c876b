"""`dcgmi diag -j` in its two shapes, damaged, with failures, and from a real program that hangs or is missing."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.admission.dcgm import DcgmReport, dcgm_checks, read_dcgm
from rankmuster.admission.node_facts import dcgm
from rankmuster.model.admission import CheckState
from rankmuster.model.unknown import Unknown

THREE = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {"name": "Denylist", "results": [{"status": "Pass"}]},
                    {"name": "NVML Library", "results": [{"status": "Pass"}]},
                ],
            },
            {
                "category": "Integration",
                "tests": [
                    {
                        "name": "PCIe",
                        "results": [
                            {"gpu_id": "0", "status": "Pass", "info": "GPU to Host bandwidth: 52.1 GB/s"},
                            {"gpu_id": "1", "status": "Fail", "warnings": "Error using CUDA API cudaMemcpy"},
                            {"gpu_ids": "2", "status": "Skip"},
                        ],
                    }
                ],
            },
        ],
        "version": "3.3.5",
    }
}
FOUR = {
    "DCGM Diagnostic": {
        "metadata": {"DCGM Version": "4.2.3"},
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "memory",
                        "results": [
                            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
                            {
                                "entity_group": "GPU",
                                "entity_group_id": 1,
                                "entity_id": 3,
                                "status": "Fail",
                                "warnings": [{"error_category": 7, "error_id": 83, "warning": "Pending row remapping"}],
                            },
                        ],
                        "test_summary": {"status": "Fail"},
                    },
                    {"name": "software", "test_summary": {"status": "Pass"}},
                ],
            }
        ],
        "version": "4.2.3",
    }
}


def states(report: DcgmReport | Unknown | None) -> list[CheckState]:
    return [check.state for check in dcgm_checks(report)]


def test_the_shape_up_to_three() -> None:
    report = read_dcgm(b"Successfully ran diagnostic for group.\n" + json.dumps(THREE).encode(), 2)
    assert (report.version, report.problem, len(report.results)) == ("3.3.5", None, 5)
    assert states(report) == [CheckState.PASS, CheckState.FAIL, CheckState.UNKNOWN]
    failed = dcgm_checks(report)[1]
    assert failed.subject == "GPU 1"
    assert failed.statement == "dcgmi diag -r 2: PCIe: fail: Error using CUDA API cudaMemcpy"
    assert failed.required


def test_the_shape_from_four_on() -> None:
    report = read_dcgm(json.dumps(FOUR).encode(), 3)
    failed = dcgm_checks(report)[1]
    assert (failed.subject, failed.state) == ("GPU 3", CheckState.FAIL)
    assert "Pending row remapping" in failed.statement
    assert any(result.test == "software" and result.gpu is None for result in report.results)


def test_cut_json_and_no_json_are_errors_and_no_pass() -> None:
    whole = json.dumps(THREE).encode()
    for output in (whole[: len(whole) // 2], b"", b"Error: Unable to complete diagnostic for group 0", b"{}", b"{\xff"):
        report = read_dcgm(output, 1)
        assert report.problem
        assert states(report) == [CheckState.ERROR]


def test_an_error_of_dcgms_own_is_an_error() -> None:
    report = read_dcgm(b'{"DCGM Diagnostic": {"runtime_error": "the host engine is not running"}}', 1)
    assert states(report) == [CheckState.ERROR]
    assert "host engine" in dcgm_checks(report)[0].statement


def test_a_word_that_nobody_knows_is_no_pass() -> None:
    document = {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "x", "results": [{"status": "Odd"}]}]}]}}
    assert states(read_dcgm(json.dumps(document).encode())) == [CheckState.ERROR]


def test_not_asked_for_and_not_installed_are_no_faults() -> None:
    assert states(None) == []
    (missing,) = dcgm_checks(dcgm(1, program="no-such-dcgmi"))
    assert (missing.state, missing.required) == (CheckState.UNKNOWN, False)
    assert "not installed" in missing.statement


def program(folder: Path, body: str) -> str:
    path = folder / "dcgmi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_program_that_hangs_is_ended_and_refuses(tmp_path: Path) -> None:
    report = dcgm(1, program=program(tmp_path, "exec sleep 60"), seconds=0.5)
    assert isinstance(report, DcgmReport)
    assert report.hung
    assert states(report) == [CheckState.HUNG]


def test_what_a_program_prints_is_read_whatever_its_status_is(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(THREE))
    report = dcgm(2, program=program(tmp_path, f'test "$*" = "diag -r 2 -j" && cat {tmp_path}/out.json; exit 205'))
    assert isinstance(report, DcgmReport)
    assert CheckState.FAIL in states(report)


def test_a_host_engine_that_does_not_run_is_like_no_dcgm(tmp_path: Path) -> None:
    words = "Error: unable to establish a connection to the specified host: localhost"
    found = dcgm(1, program=program(tmp_path, f"echo '{words}'; exit 255"))
    assert isinstance(found, Unknown)
    assert states(found) == [CheckState.UNKNOWN]


def test_a_program_that_ends_without_a_word_says_how(tmp_path: Path) -> None:
    report = dcgm(1, program=program(tmp_path, "echo no engine >&2; exit 3"))
    assert isinstance(report, DcgmReport)
    assert "ended with status 3 (no engine)" in (report.problem or "")


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    dcgm_checks(read_dcgm(data, 1))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "test_categories",
                        "tests",
                        "results",
                        "name",
                        "status",
                        "gpu_id",
                        "entity_id",
                        "warnings",
                        "test_summary",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_no_json_raises(value: object) -> None:
    dcgm_checks(read_dcgm(json.dumps({"DCGM Diagnostic": {"test_categories": value}}).encode(), 1))


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_every_level_has_a_time_limit(level: int, tmp_path: Path) -> None:
    report = dcgm(level, program=program(tmp_path, "echo '{}'"))
    assert isinstance(report, DcgmReport)
    assert report.level == level
