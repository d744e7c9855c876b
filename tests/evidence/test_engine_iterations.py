"""TensorRT-LLM's drained list of iterations: the one step counter that this engine has."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import engine_iterations
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.model.engine import EnginePage
from rankmuster.model.problem import ProblemKind
from rankmuster.model.stamp import unix

ITEM = {
    "gpuMemUsage": 76665782272,
    "iter": 154,
    "iterLatencyMS": 7.00688362121582,
    "kvCacheStats": {"freeNumBlocks": 101253, "maxNumBlocks": 101256, "usedNumBlocks": 3},
    "numActiveRequests": 1,
    "numQueuedRequests": 0,
}
PAGE = json.dumps([ITEM, {**ITEM, "iter": 156}, {**ITEM, "iter": 155}]).encode()


def read(data: bytes) -> Reading:
    blob = Blob("engine/1795986477.893.json", data)
    return engine_iterations.read(blob) if engine_iterations.recognises(blob) else Reading()


def test_the_newest_iteration_is_the_step_counter():
    (page,) = read(PAGE).observations
    assert isinstance(page, EnginePage)
    assert (page.engine, page.time) == ("tensorrt-llm", unix(1795986477.893))
    (stream,) = page.streams
    assert (stream.running, stream.waiting, stream.steps) == (1.0, 0.0, {"iter": 156.0})
    assert stream.gauges["kvCacheStats.usedNumBlocks"] == 3.0


def test_a_cut_list_keeps_its_whole_items_and_says_so():
    reading = read(PAGE[:-30])
    (page,) = reading.observations
    assert isinstance(page, EnginePage)
    assert page.streams[0].steps == {"iter": 156.0}
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]
    assert "2 item(s)" in reading.problems[0].message


def test_other_json_is_not_claimed():
    for other in (b"[]", b'{"entries": []}', b'{"iter": 4}', b'[{"iterLatencyMS": 3}]'):
        assert not engine_iterations.recognises(Blob("x", other))


@given(st.integers(0, len(PAGE)), st.integers(0, len(PAGE)), st.binary(max_size=100))
@settings(max_examples=80, deadline=None)
def test_no_damage_raises(cut: int, start: int, noise: bytes):
    for damaged in (PAGE[:cut], PAGE[start:], PAGE[:cut] + noise + PAGE[start:], noise):
        assert isinstance(engine_iterations.read(Blob("x", damaged)), Reading)
        engine_iterations.recognises(Blob("x", damaged))
