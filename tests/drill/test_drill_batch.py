"""The scheduler of the drill's engine, and its page while it works: vLLM's ways, on which the watch relies."""

from __future__ import annotations

import struct
import threading
from itertools import islice, pairwise
from pathlib import Path

import pytest

from rankmuster.drill.batch import MOST_WAITING, Batch, Work
from rankmuster.drill.counts import Counts, Histogram
from rankmuster.drill.ledger import Ledger
from rankmuster.drill.orders import SLOTS, Orders
from rankmuster.drill.page import page
from rankmuster.drill.plan import Backend, Control, JobPlan, Serving
from rankmuster.drill.traffic import CHUNK, Request, Traffic, requests
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.engine_page import read
from rankmuster.model.engine import EnginePage, EngineStream


def stream(counts: Counts) -> EngineStream:
    """What the evidence reader makes of the page."""
    reading = read(Blob("engine/1795986513.prom", page(counts).encode()))
    assert reading.problems == ()
    (one,) = reading.observations
    assert isinstance(one, EnginePage)
    assert one.engine == "vllm"
    (found,) = one.streams
    return found


def serve(batch: Batch, steps: int, step: float = 0.01, now: float = 0.0) -> float:
    for _ in range(steps):
        work = batch.next(now)
        now += step
        if work is not None:
            batch.done(work, now)
    return now


@pytest.mark.parametrize("traffic", list(Traffic))
def test_the_same_seed_gives_the_same_requests_in_order(traffic: Traffic) -> None:
    first = list(islice(requests(traffic, 7), 200))
    assert first == list(islice(requests(traffic, 7), 200))
    assert all(one.at <= other.at for one, other in pairwise(first))
    assert [one.number for one in first] == list(range(len(first)))
    assert all(one.prompt > 0 and one.tokens > 0 for one in first)


def test_traffic_is_of_its_kind() -> None:
    assert len(list(requests(Traffic.IDLE, 1))) == 3
    hours = list(islice(requests(Traffic.HOURLY, 1), 3))
    assert hours[1].at - hours[0].at > 30
    bursts = list(islice(requests(Traffic.BURSTY, 1), 60))
    assert len({one.at for one in bursts}) < 25
    busy = list(islice(requests(Traffic.BUSY, 1), 500))
    assert 0.05 < busy[-1].at / 500 < 0.2
    assert busy != list(islice(requests(Traffic.BUSY, 2), 500))


def test_a_request_waits_reads_decodes_and_ends_with_everything_counted() -> None:
    batch = Batch(iter([Request(0, 0.0, 300, 5), Request(1, 0.0, 100, 2)]), most_running=1)
    kinds = []
    now = 0.0
    while (work := batch.next(now)) is not None:
        now += 0.01
        if batch.done(work, now) and not kinds:
            seen = stream(batch.counts)
            assert (seen.running, seen.waiting) == (1, 1)
        kinds.append(work)
    assert kinds == [Work.PREFILL] * 3 + [Work.DECODE] * 4 + [Work.PREFILL] + [Work.DECODE]
    counts = batch.counts
    assert (counts.running, counts.waiting, counts.cache) == (0, 0, 0.0)
    assert (counts.prompt, counts.generated, counts.ended) == (400, 7, 2)
    assert sum(counts.iteration.counts) == 7
    assert counts.iteration.total == 407
    assert sum(counts.inter_token.counts) == 5
    assert sum(counts.first_token.counts) == sum(counts.request.counts) == 2
    assert batch.wait(now) is None


def test_in_a_long_prompt_only_the_cache_moves() -> None:
    batch = Batch(iter([Request(0, 0.0, 10 * CHUNK, 5, chunk_seconds=0.25)]), most_running=8)
    now = serve(batch, 60, step=0.02)
    first = stream(batch.counts)
    serve(batch, 60, step=0.02, now=now)
    second = stream(batch.counts)
    assert first.running == second.running == 1
    assert first.steps == second.steps
    assert second.gauges["vllm:kv_cache_usage_perc"] > first.gauges["vllm:kv_cache_usage_perc"] > 0


def test_a_step_that_never_ends_leaves_the_page_as_it_was() -> None:
    batch = Batch(requests(Traffic.BUSY, 1), most_running=8)
    now = serve(batch, 200)
    before = page(batch.counts)
    batch.next(now + 60.0)  # begins, and is never done: what came in between is nowhere to be seen
    assert page(batch.counts) == before


def test_decoding_goes_on_beside_a_long_prompt() -> None:
    batch = Batch(iter([Request(0, 0.0, 100, 50), Request(1, 0.1, 20 * CHUNK, 5)]), most_running=8)
    now = serve(batch, 20)
    before = batch.counts.generated
    serve(batch, 200, now=now)
    assert batch.counts.generated > before + 5


def test_too_many_requests_are_turned_away() -> None:
    batch = Batch(iter([Request(number, 0.0, 100, 1000) for number in range(500)]), most_running=4)
    serve(batch, 50)
    assert batch.counts.running == 4
    assert batch.counts.waiting <= MOST_WAITING


def test_until_the_next_request_there_is_nothing_to_do() -> None:
    batch = Batch(iter([Request(0, 2.0, 100, 1)]), most_running=4)
    assert batch.next(1.5) is None
    assert batch.wait(1.5) == 0.5
    assert batch.wait(3.0) == 0.0
    assert batch.next(2.0) is Work.PREFILL


def test_the_page_is_vllms() -> None:
    counts = Counts(running=3, waiting=1, cache=0.0417, prompt=2700, generated=8342, ended=7)
    counts.iteration.observe(3, 2911)
    text = page(counts)
    for line in (
        'vllm:num_requests_running{engine="0",model_name="drill"} 3.0',
        'vllm:engine_sleep_state{engine="0",model_name="drill",sleep_state="awake"} 1.0',
        'vllm:kv_cache_usage_perc{engine="0",model_name="drill"} 0.0417',
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="drill"} 7.0',
        'vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="drill"} 0.0',
        'vllm:iteration_tokens_total_bucket{engine="0",le="8.0",model_name="drill"} 2911.0',
        'vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="drill"} 2911.0',
        'vllm:iteration_tokens_total_count{engine="0",model_name="drill"} 2911.0',
        'vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025",model_name="drill"} 0.0',
        'vllm:e2e_request_latency_seconds_count{engine="0",model_name="drill"} 0.0',
    ):
        assert line in text.splitlines()
    assert not stream(counts).paused


def test_what_a_new_server_shows_is_what_came_since() -> None:
    before, now = Counts(running=8, cache=0.5, generated=100), Counts(running=4, cache=0.2, generated=130)
    before.inter_token.observe(0.02, 90)
    now.inter_token.observe(0.02, 120)
    shown = now.since(before)
    assert (shown.running, shown.cache, shown.generated) == (4, 0.2, 30)
    assert sum(shown.inter_token.counts) == 30
    assert Counts.of(now.numbers()) == now


def test_a_value_on_a_bound_is_within_it() -> None:
    one = Histogram((1.0, 8.0))
    for value in (1.0, 1.5, 8.0, 9.0):
        one.observe(value)
    assert one.counts == [1, 2, 1]


def test_the_ledger_is_read_whole_while_it_is_written(tmp_path: Path) -> None:
    writer, reader = Ledger.create(tmp_path / "ledger"), Ledger(tmp_path / "ledger")
    assert reader.read() == Counts()
    end = threading.Event()

    def write() -> None:
        number = 0
        while not end.is_set():
            number += 1
            writer.write(Counts(prompt=number, generated=number, ended=number))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            counts = reader.read()
            assert counts.prompt == counts.generated == counts.ended
    finally:
        end.set()
        thread.join()
    assert reader.read().prompt > 0
    writer.close()
    reader.close()


def test_a_writer_that_was_frozen_in_the_middle_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    writer = Ledger.create(path)
    writer.write(Counts(generated=5))
    writer.close()
    path.write_bytes(struct.pack("<q", 3) + path.read_bytes()[8:])
    assert Ledger(path).read().generated == 5


def test_orders_come_to_everybody_in_their_order(tmp_path: Path) -> None:
    leader, follower = Orders.create(tmp_path / "orders"), Orders(tmp_path / "orders")
    for number in range(SLOTS):
        leader.give(number, number % 2 + 1)
    assert [follower.wait(number) for number in range(SLOTS)] == [number % 2 + 1 for number in range(SLOTS)]
    late = threading.Timer(0.2, leader.give, (SLOTS, 7))
    late.start()
    assert follower.wait(SLOTS) == 7
    leader.close()
    follower.close()


def test_a_serving_plan_reads_back_as_it_was() -> None:
    serving = Serving(Traffic.LONG_PREFILL, seed=4, load_seconds=2.5, control=Control.BROADCAST)
    plan = JobPlan("llm-0", 4, Backend.NCCL, fault="stop", culprit=2, serving=serving)
    assert JobPlan.from_json(plan.to_json()) == plan
