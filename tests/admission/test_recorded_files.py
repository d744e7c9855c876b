"""Admission of files: told by content, damage said, a run's own settings counted, and nothing half read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, SAMPLES, fill, node_path, run_of, taken
from rankmuster.admission.made_from import NotMadeOfAPath, path_of
from rankmuster.admission.past import NoPast, Past
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Plan
from rankmuster.admission.recorded import NotRecorded, read_recorded, with_kernel_log
from rankmuster.admission.recorded_sources import recorded_sources
from rankmuster.admission.run import admit
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.model.admission import AdmissionRecord, CheckState, Decision
from rankmuster.report.benchmark_json import as_json
from rankmuster.report.fingerprint_yaml import as_yaml
from rankmuster.store.history import History


def of(
    files: list[Path], past: Past | None = None, given: dict[str, str] | None = None, log: Path | None = None
) -> AdmissionRecord:
    found = read_recorded(files)
    if log is not None:
        with_kernel_log(found, log)
    sources = recorded_sources(found, past or NoPast(), PROFILE, given or {}, lambda: 1_796_000_000.0)
    return admit(Plan(PROFILE, runs=len(found.runs), retests=0), sources).record


@pytest.fixture
def fingerprint(tmp_path: Path) -> Path:
    """The node's fingerprint as a file."""
    path = tmp_path / "node7.yaml"
    path.write_text(as_yaml(taken().fingerprint))
    return path


def test_a_stored_fingerprint_is_checked_like_a_live_node(fingerprint: Path, tmp_path: Path) -> None:
    fill(tmp_path / "history.db", HEALTHY[1:])
    log = tmp_path / "dmesg.txt"
    log.write_text("2026-11-30T09:00:00.000000+00:00 node7 kernel: Linux version 6.8.0\n")
    with History.open(str(tmp_path / "history.db")) as history:
        record = of([SAMPLES / "ar_1.txt", fingerprint], StorePast(history), log=log)
    assert record.decision is Decision.PASS, record.reasons
    assert record.nodes == ("node7",)
    passed = {check.name for check in record.checks if check.state is CheckState.PASS}
    assert {"gpus", "memory-errors", "nvlinks", "p2p-read", "pcie-width", "xid", "values"} <= passed


def test_a_path_survives_the_fingerprint_that_was_made_from_it() -> None:
    path = node_path()
    again = path_of(taken().fingerprint)
    assert again.gpus == path.gpus or str(again.gpus) == str(path.gpus)
    assert again.matrices["m"].cells == path.matrices["m"].cells
    assert again.container.memlock_bytes == float("inf")
    assert fingerprint_of(again).class_hash == taken().fingerprint.class_hash
    with pytest.raises(NotMadeOfAPath, match="gpus"):
        path_of(replace(taken().fingerprint, made_from={**taken().fingerprint.made_from, "gpus": 4}))
    with pytest.raises(NotMadeOfAPath):
        path_of(replace(taken().fingerprint, made_from={}))


def test_what_a_run_was_started_with_is_its_class(fingerprint: Path, tmp_path: Path) -> None:
    """The JSON says NCCL_NVLS_ENABLE=0 of its environment, and --env says what no file does."""
    fill(tmp_path / "history.db")
    with History.open(str(tmp_path / "history.db")) as history:
        own = of([SAMPLES / "nccl-tests-ar_1.json", fingerprint], StorePast(history))
        assert own.kinship == "class"
        other = of([SAMPLES / "ar_ll.txt", fingerprint], StorePast(history), {"NCCL_PROTO": "LL"})
    assert (other.decision, other.kinship) == (Decision.FAIL, "kin")
    assert other.reasons[0].startswith("NCCL_PROTO=LL, unset in the class")


def test_no_secret_of_an_environment_reaches_the_record(fingerprint: Path) -> None:
    record = of([SAMPLES / "nccl-tests-ar_1.json", fingerprint])
    assert "planted-secret" not in repr(record)


def test_captured_text_makes_the_node(tmp_path: Path) -> None:
    names = ("smi_q.txt", "nvlink_s.txt", "topo_m.txt", "topo_p2p_r.txt", "topo_p2p_w.txt", "shm.txt")
    record = of([SAMPLES / "nt_ar_1.txt", *(SAMPLES / name for name in names)])
    assert (record.decision, record.kinship) == (Decision.PROVISIONAL, "floor")
    passed = {check.name for check in record.checks if check.state is CheckState.PASS}
    assert {"memory-errors", "nvlinks", "p2p-read", "p2p-write", "clocks", "fabric"} <= passed


def test_a_whole_folder_is_read(fingerprint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "captured"
    folder.mkdir()
    (folder / "a.txt").write_bytes((SAMPLES / "ar_1.txt").read_bytes())
    (folder / "fp.yaml").write_bytes(fingerprint.read_bytes())
    assert of([folder]).nodes == ("node7",)


def test_a_log_beside_a_table_gives_its_choices(fingerprint: Path, tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    lines = [
        f"vm:6409:64{rank:02d} [{rank}] NCCL INFO Channel 00/0 : {rank}[{rank}] -> {(rank + 1) % 4}"
        for rank in range(4)
    ]
    log.write_text("".join(f"{line}[{(n + 1) % 4}] via SHM/direct/direct\n" for n, line in enumerate(lines)))
    record = of([SAMPLES / "ar_1.txt", fingerprint, log])
    assert record.decision is Decision.FAIL
    assert "goes through host memory (SHM/direct/direct)" in record.reasons[0]


def test_a_busy_kernel_in_the_built_in_benchmarks_own_form(fingerprint: Path, tmp_path: Path) -> None:
    run = run_of("ar_1.txt")
    rows = [
        replace(row, busbw=row.busbw / by, algbw=row.algbw / by, time_us=row.time_us * by, ranks_us=ranks)
        for row in run.measurements
        for by in [2.0 if row.cell.size_bytes >= 1 << 24 else 1.0]
        for ranks in [tuple(row.time_us * (1.5 if rank == 2 and by > 1 else 1.0) for rank in range(4))]
    ]
    recorded = tmp_path / "run.json"
    recorded.write_text(as_json(replace(run, tool="built-in", measurements=tuple(rows))))
    fill(tmp_path / "history.db")
    with History.open(str(tmp_path / "history.db")) as history:
        record = of([recorded, fingerprint], StorePast(history))
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith("rank 2 (GPU 2, 0000:00:08) is the slow one")


def test_the_same_run_in_several_files_is_one_process(fingerprint: Path, tmp_path: Path) -> None:
    """A copy of another date must not look like a re-test that came out the same."""
    own = tmp_path / "run.json"
    own.write_text(as_json(run_of("ar_2.txt", started_at=1_796_000_000.0)))
    for number in range(3):
        copy = tmp_path / f"copy-{number}.txt"
        copy.write_bytes((SAMPLES / "ar_1.txt").read_bytes())
        os.utime(copy, (1_796_000_000.0 + number,) * 2)
    found = read_recorded([*sorted(tmp_path.glob("copy-*")), own, own, fingerprint])
    assert len(found.runs) == 2
    assert sum("counts once" in note for note in found.notes) == 3


def test_a_table_cut_within_a_row_is_an_error(fingerprint: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.txt"
    cut.write_bytes((SAMPLES / "ar_1.txt").read_bytes()[:2300])
    record = of([cut, fingerprint])
    assert record.decision is Decision.ERROR
    assert "ended before its last size" in record.reasons[0]


def test_a_truncated_json_is_an_error_or_refused(fingerprint: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    data = (SAMPLES / "nccl-tests-ar_1.json").read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    assert of([cut, fingerprint]).decision is Decision.ERROR
    own = as_json(run_of("ar_1.txt")).encode()
    cut.write_bytes(own[: len(own) // 2])
    with pytest.raises(NotRecorded, match=r"cut\.json is no benchmark run"):
        of([cut, fingerprint])


def test_more_gpus_than_there_are_is_an_error_with_the_tools_words(fingerprint: Path) -> None:
    record = of([SAMPLES / "ar_toomany.txt", fingerprint])
    assert record.decision is Decision.ERROR
    assert "Invalid number of GPUs" in record.reasons[0]


def test_a_fingerprint_that_was_changed_is_refused(fingerprint: Path) -> None:
    fingerprint.write_text(fingerprint.read_text().replace("580.159.04", "580.159.05"))
    with pytest.raises(NotRecorded, match="not as it was written"):
        of([SAMPLES / "ar_1.txt", fingerprint])


def test_a_benchmark_alone_has_no_class_and_says_what_to_add() -> None:
    record = of([SAMPLES / "ar_1.txt"])
    assert record.decision is Decision.PROVISIONAL
    assert "no fingerprint was given" in record.reasons[0]
    assert record.nodes == ("unnamed host",)
    told = of([SAMPLES / "nccl-tests-ar_1.json"])
    assert (told.decision, "no fingerprint was given" in told.reasons[0]) == (Decision.PROVISIONAL, True)


def test_what_is_nothing_of_it_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "notes.txt"
    odd.write_text("nothing of the kind\n")
    with pytest.raises(NotRecorded, match=r"notes\.txt"):
        of([odd])
    with pytest.raises(NotRecorded, match="is not there"):
        of([tmp_path / "gone.txt"])
    with pytest.raises(NotRecorded, match="no benchmark in"):
        of([SAMPLES / "smi_q.txt"])
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"schema": "rankmuster.admission/1"}))
    with pytest.raises(NotRecorded, match="admit verify"):
        of([answer])


def test_a_dcgm_report_and_a_kernel_log_beside_it_count(fingerprint: Path, tmp_path: Path) -> None:
    report = tmp_path / "dcgm.json"
    results = [{"gpu_id": "1", "status": "Fail", "warnings": "page retirement"}]
    tests = [{"name": "Memory", "results": results}]
    report.write_text(json.dumps({"DCGM GPU Diagnostic": {"test_categories": [{"tests": tests}]}}))
    log = tmp_path / "dmesg.txt"
    log.write_text("2026-11-30T09:00:00+00:00 n kernel: NVRM: Xid (PCI:0000:00:08): 79, GPU has fallen off the bus.\n")
    record = of([SAMPLES / "ar_1.txt", fingerprint, report, log])
    assert record.decision is Decision.FAIL
    reasons = " ".join(record.reasons)
    assert "Xid 79" in reasons
    assert "page retirement" in reasons


SILENT = replace(
    node_path(),
    gpus=tuple(
        replace(gpu, facts={key: word for key, word in gpu.facts.items() if key != "GPU Recovery Action"})
        for gpu in (node_path().gpus if isinstance(node_path().gpus, tuple) else ())
    ),
)
"""The node with a driver that does not tell its recovery action: there the kernel log is all there is."""

VERSION = "2026-11-30T09:00:00+00:00 node7 kernel: Linux version 6.8.0\n"
FALLEN = "2026-11-30T09:00:01+00:00 node7 kernel: NVRM: Xid (PCI:0000:00:08): 79, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        (VERSION, CheckState.PASS, "no Xid since boot"),
        ("", CheckState.UNKNOWN, "is empty"),
        ("hello world\n", CheckState.UNKNOWN, "is no kernel log"),
        ("dmesg: read kernel buffer failed: Operation not permitted\n", CheckState.UNKNOWN, "not permitted"),
        ("-- No entries --\n", CheckState.UNKNOWN, "is no kernel log"),
        ("[ 5000.0] eth0: link up\n", CheckState.UNKNOWN, "does not reach back to this boot"),
        (VERSION + FALLEN, CheckState.FAIL, "Xid 79"),
        (VERSION + FALLEN + "-- Reboot --\n" + VERSION, CheckState.PASS, "no Xid since boot"),
        (VERSION + FALLEN + VERSION, CheckState.PASS, "no Xid since boot"),
    ],
)
@pytest.mark.parametrize("by", ["option", "file"])
def test_only_a_kernel_log_of_this_boot_is_a_clean_bill(
    tmp_path: Path, text: str, state: CheckState, words: str, by: str
) -> None:
    fingerprint, log = tmp_path / "node7.yaml", tmp_path / "dmesg.log"
    fingerprint.write_text(as_yaml(fingerprint_of(SILENT)))
    log.write_text(text)
    if by == "file" and state is CheckState.UNKNOWN:
        with_log = [SAMPLES / "ar_1.txt", fingerprint]  # nobody takes such a file for a kernel log
        record, words = of(with_log), "no kernel log was given"
    elif by == "file":
        record = of([SAMPLES / "ar_1.txt", fingerprint, log])
    else:
        record = of([SAMPLES / "ar_1.txt", fingerprint], log=log)
    (xid,) = [check for check in record.checks if check.name == "xid"]
    assert (xid.state, xid.required) == (state, True)
    assert words in xid.statement
