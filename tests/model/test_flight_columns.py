"""Columns on their way to another process: what is one value stays one value."""

from __future__ import annotations

import pickle

import numpy as np

from rankmuster.model.flight import FlightColumns, FlightGroup


def test_a_column_of_one_value_is_sent_as_one_value_and_comes_back_as_such() -> None:
    count = 2000
    rows = np.arange(count, dtype=np.int64)
    zeros = np.broadcast_to(np.int64(0), count)
    columns = FlightColumns(
        record_id=rows,
        call=np.zeros(count, dtype=np.int32),
        seq=rows,
        p2p_seq=zeros,
        op_id=rows,
        created_ns=rows,
        started_ns=zeros,
        completed_ns=zeros,
        duration_ms=np.broadcast_to(np.float64("nan"), count),
        state=np.broadcast_to(np.int8(3), count),
        retired=np.broadcast_to(np.bool_(True), count),
        stack=np.broadcast_to(np.int32(-1), count),
        calls=np.array([[0, 0, 0, -1, -1, -1, -1, 0, -1]]),
        groups=(FlightGroup("0", "default_pg", (0, 1), 0),),
        ops=("nccl:all_reduce",),
        sizes=(),
        dtypes=(),
        stacks=(),
    )
    sent = pickle.dumps(columns, protocol=5)
    assert len(sent) < 5 * 8 * count
    back = pickle.loads(sent)
    for name in ("record_id", "p2p_seq", "completed_ns", "state", "retired", "stack"):
        column = getattr(back, name)
        assert np.array_equal(column, getattr(columns, name))
        assert column.dtype == getattr(columns, name).dtype
    assert back.p2p_seq.strides == back.duration_ms.strides == (0,)
    assert back.groups == columns.groups
