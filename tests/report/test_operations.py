"""Dumps are laid onto the job's groups and clock without inventing what they do not say."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from rankmuster.model.flight import FlightGroup
from rankmuster.model.job import DumpFacts, Group, Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.operations import ROW_MARKS, Mark, divergence_group, job_group, operations


def marks(table_mark: np.ndarray) -> list[Mark]:
    return [ROW_MARKS[index] for index in table_mark.tolist()]


def test_groups_are_joined_by_members_before_names(job: Job) -> None:
    groups = (Group(0, "1", "tp", (0, 1)), Group(1, "1", "tp", (2, 3)), Group(2, "2", "pp", (0, 2)))
    many = replace(job, groups=groups)
    assert job_group(many, 2, FlightGroup("1", "tp", (2, 3))) == 1
    assert job_group(many, 0, FlightGroup("9", "renamed", (0, 2))) == 2
    assert job_group(many, 0, FlightGroup("2", "pp", None)) == 2
    assert job_group(many, 3, FlightGroup("2", "pp", None)) == -1


def test_outstanding_operations_have_no_end(job: Job) -> None:
    table = operations(job)[0]
    assert marks(table.mark)[-6:] == [Mark.FINISHED, Mark.STARTED, *[Mark.ENTERED] * 4]
    assert np.isnan(table.ended[-5:]).all()
    assert not np.isnan(table.ended[:-5]).any()
    assert table.op_name(0) == "all_reduce"


def test_retired_without_completed_is_a_failure_only_where_events_exist(job: Job, by_hand: SimpleNamespace) -> None:
    columns = by_hand.columns(755, 750)
    retired = replace(columns, retired=np.ones(len(columns), dtype=np.bool_))
    for has_events, expected in ((True, Mark.FAILED), (False, Mark.FINISHED)):
        facts = DumpFacts(0, "x", by_hand.look, "manifest", False, False, len(columns), has_events, True)
        single = replace(job, dumps={0: by_hand.dump(0, retired)}, dump_facts={0: facts}, views={})
        assert marks(operations(single)[0].mark)[-1] is expected


def test_a_hosts_clock_offset_is_applied(job: Job, by_hand: SimpleNamespace) -> None:
    shifted = operations(replace(job, clock_offsets={by_hand.host: (1.5, 0.001)}))[0]
    assert np.allclose(shifted.created - operations(job)[0].created, 1.5)


def test_an_end_before_its_beginning_has_no_negative_length(job: Job, by_hand: SimpleNamespace) -> None:
    columns = by_hand.columns(755, 755)
    broken = replace(columns, completed_ns=columns.created_ns - 5_000_000)
    table = operations(replace(job, dumps={0: by_hand.dump(0, broken)}))[0]
    assert (table.ended >= table.created).all()


def test_the_diverging_group_is_the_one_with_these_members(verdict: Verdict, job: Job) -> None:
    groups = (Group(0, "0", "default_pg", (0, 1)), Group(1, "0", "default_pg", (0, 1, 2, 3)))
    found = divergence_group(verdict, replace(job, groups=groups))
    assert found is not None
    assert found.key == 1
    assert divergence_group(verdict, replace(job, groups=())) is None
