"""Names of old and new, and defaults that changed with torch's versions."""

from __future__ import annotations

import pytest

from rankmuster.collect.flight.settings import RecorderSettings, read_settings


@pytest.mark.parametrize(
    ("environ", "torch", "prefixes"),
    [
        ({"HOME": "/root"}, (2, 6), ("/tmp/nccl_trace_rank_",)),
        ({"HOME": "/root"}, (2, 7), ("/root/.cache/torch/nccl_trace_rank_",)),
        ({"HOME": "/root"}, (2, 13), ("/root/.cache/torch/comm_lib_trace_rank_",)),
        ({"HOME": "/root", "XDG_CACHE_HOME": "/x/"}, (2, 8), ("/x/torch/comm_lib_trace_rank_",)),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/r_"}, None, ("/d/r_",)),
        ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/r_", "TORCH_FR_DUMP_TEMP_FILE": "/e/r_"}, (2, 11), ("/e/r_",)),
    ],
)
def test_where_a_dump_must_be(environ: dict[str, str], torch: tuple[int, int] | None, prefixes: tuple[str]) -> None:
    assert read_settings(environ, torch).prefixes == prefixes


def test_an_unknown_torch_may_have_written_to_any_of_them() -> None:
    assert len(read_settings({"HOME": "/h"}, None).prefixes) == 3


@pytest.mark.parametrize(
    ("environ", "torch", "why"),
    [
        ({}, (2, 11), None),
        ({}, (2, 10), "buffer is 0 entries"),
        ({}, None, None),
        ({"TORCH_FR_BUFFER_SIZE": "500"}, (2, 10), None),
        ({"TORCH_FR_BUFFER_SIZE": "500"}, (2, 5), "TORCH_NCCL_TRACE_BUFFER_SIZE is 0"),
        ({"TORCH_NCCL_TRACE_BUFFER_SIZE": "500"}, (2, 5), None),
        ({"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, (2, 11), "TRACE_BUFFER_SIZE is 0"),
        ({"TORCH_FR_BUFFER_SIZE": "0"}, (2, 11), "buffer is 0 entries"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "Yes"}, (2, 11), "no watchdog"),
        ({"NCCL_BLOCKING_WAIT": "1"}, (2, 11), "no watchdog"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "0"}, (2, 11), None),
        ({"TORCH_FR_BUFFER_SIZE": "many", "TORCH_NCCL_TRACE_BUFFER_SIZE": "9" * 400}, (2, 11), None),
    ],
)
def test_why_no_dump(environ: dict[str, str], torch: tuple[int, int] | None, why: str | None) -> None:
    said = read_settings(environ, torch).why_no_dump()
    assert (said is None) if why is None else (said is not None and why in said)


def test_a_pipe_has_to_be_set_and_is_looked_into_slowly_without_dump_on_timeout() -> None:
    unset = read_settings({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": ""}, (2, 11))
    assert "was not set" in (unset.why_no_pipe() or "")
    pipe = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/p_"}
    assert read_settings(pipe, (2, 11)).why_no_pipe() is None
    assert read_settings(pipe, (2, 11)).pipe_poll == 1.0
    assert read_settings({**pipe, "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}, (2, 11)).pipe_poll == 480
    old: RecorderSettings = read_settings({**pipe, "TORCH_NCCL_COORD_CHECK_MILSEC": "-3"}, (2, 6))
    assert (old.pipe_poll, old.dump_wait, old.dump_on_timeout) == (480, 60.0, False)
