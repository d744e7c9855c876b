"""What is run and what is right: one entry a scenario."""

from __future__ import annotations

from typing import Any

FOUR, TWO = [0, 1, 2, 3], [0, 1]


def _case(
    layout: str, fault: str, accept: list[str], culprits: list[int], *, truth: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    worker = {"layout": layout, "fault": fault, **more.pop("worker", {})}
    answer: dict[str, Any] = {"accept_class": accept, **(truth or {})}
    if "culprits_allowed" not in answer:
        answer["culprits"] = culprits
    return {"gpus": TWO if layout == "tp2" else FOUR, "worker": worker, "truth": answer, **more}


DESYNC, LOST, HEALTHY, SLOW = (
    ["collective_desync"],
    ["process_or_device_lost"],
    ["healthy"],
    ["performance_degradation"],
)

SCENARIOS: dict[str, dict[str, Any]] = {
    "wrong-size": _case("tp4", "wrong_size", DESYNC, [1], worker={"rank": 1}, truth={"subclass": ["size_mismatch"]}),
    "wrong-dtype": _case("tp4", "wrong_dtype", DESYNC, [3], worker={"rank": 3}, truth={"subclass": ["dtype_mismatch"]}),
    "skipped-call": _case("tp4", "skip", DESYNC, [2], worker={"rank": 2}),
    "order-swap": _case("tp4", "order_swap", DESYNC, [0], worker={"rank": 0}),
    "group-order": _case("tp2pp2", "group_order", DESYNC, [2], worker={"rank": 2}),
    "stop-before-send": _case("tp2pp2", "stop_before_send", DESYNC, [1], worker={"rank": 1}),
    "stop-before-recv": _case("tp2pp2", "stop_before_recv", DESYNC, [3], worker={"rank": 3}),
    "exception": _case("tp4", "exception", LOST, [2], worker={"rank": 2}, truth={"subclass": ["exited"]}),
    "segfault": _case("tp4", "segfault", LOST, [1], worker={"rank": 1}, truth={"subclass": ["killed"]}),
    "cuda-assert": _case("tp4", "cuda_assert", LOST, [0], worker={"rank": 0}),
    "cuda-oom": _case("tp4", "cuda_oom", LOST, [3], worker={"rank": 3}),
    "python-loop": _case("tp4", "python_loop", DESYNC, [1], worker={"rank": 1}, truth={"subclass": ["missing_enter"]}),
    "hold-gil": _case("tp4", "hold_gil", DESYNC, [2], worker={"rank": 2}, truth={"subclass": ["missing_enter"]}),
    "no-timing-stop": _case("tp4", "stop", DESYNC, [3], worker={"rank": 3}, timing=False),
    "no-timing-busy": _case(
        "tp4", "busy_gpu", [*LOST, "transport_stall", "inconclusive"], [], timing=False, worker={"rank": 1}
    ),
    "foreign-on-culprit": _case("tp4", "stop", DESYNC, [2], worker={"rank": 2}, foreign=2),
    "tail": _case(
        "tp4",
        "tail",
        SLOW,
        [3],
        pipe=True,
        worker={"rank": 3, "seconds": 0.08, "seconds_total": 45},
        truth={"subclass": ["tail"]},
    ),
    "tail-slow-steps": _case(
        "tp4",
        "tail",
        SLOW,
        [3],
        pipe=True,
        worker={"rank": 3, "seconds": 0.15, "pace": 0.008, "share": 0.03},
        truth={"subclass": ["tail"]},
    ),
    "slow-root": _case("tp4", "slow", SLOW, [0], pipe=True, worker={"rank": 0, "seconds": 0.02}),
    "tp2-slow-root": _case("tp2", "slow", SLOW, [0], pipe=True, worker={"rank": 0, "seconds": 0.02}),
    "pp-slow": _case("tp2pp2", "slow", SLOW, [3], pipe=True, worker={"rank": 3, "seconds": 0.02}),
    "pp-kill": _case("tp2pp2", "kill", LOST, [2], worker={"rank": 2}, truth={"subclass": ["killed"]}),
    "pp-freeze": _case("tp2pp2", "freeze", LOST, [1], worker={"rank": 1}, truth={"subclass": ["unresponsive"]}),
    "pp-stop": _case("tp2pp2", "stop", DESYNC, [0], worker={"rank": 0}),
    "graph-kill": _case("tp4", "kill", LOST, [1], worker={"rank": 1, "graph": True}, truth={"subclass": ["killed"]}),
    "tp2-graph-freeze": _case("tp2", "freeze", LOST, [1], worker={"rank": 1, "graph": True}),
    "mildly-slow": _case("tp4", "slow", SLOW, [2], pipe=True, worker={"rank": 2, "seconds": 0.006}),
    "healthy-graph": _case("tp4", "graph", HEALTHY, [], pipe=True, worker={}),
    "idle": _case("tp4", "idle", HEALTHY, [], worker={"step": 400}, truth={"progress": ["idle"]}),
    "prefill": _case("tp4", "prefill", HEALTHY, [], worker={"step": 400, "seconds": 20, "rounds": 3000}),
    "init-exit": _case("tp4", "init_exit", [*LOST, "init_stuck"], [3], worker={"rank": 3}),
    "init-no-interface": _case(
        "tp4",
        "init_no_interface",
        ["init_stuck"],
        [],
        worker={"rank": 1},
        truth={"subclass": ["no_interface"], "culprits_allowed": [1]},
    ),
    "tp2-kill": _case("tp2", "kill", LOST, [1], worker={"rank": 1}, truth={"subclass": ["killed"]}),
    "tp2-freeze": _case("tp2", "freeze", LOST, [0], worker={"rank": 0}, truth={"subclass": ["unresponsive"]}),
    "tp2-exit0": _case("tp2", "exit0", LOST, [0], worker={"rank": 0}, truth={"subclass": ["exited"]}),
    "tp2-busy": _case("tp2", "busy_gpu", LOST, [1], worker={"rank": 1}, truth={"subclass": ["gpu_stalled"]}),
    "tp2-wrong-op": _case("tp2", "wrong_op", DESYNC, [1], worker={"rank": 1}),
    "tp2-wrong-size": _case("tp2", "wrong_size", DESYNC, [0], worker={"rank": 0}),
    "tp2-slow": _case("tp2", "slow", SLOW, [1], pipe=True, worker={"rank": 1, "seconds": 0.02}),
    "tp2-healthy": _case("tp2", "none", HEALTHY, [], pipe=True, worker={}),
    "tp2-init-late": _case("tp2", "init_late", ["init_stuck"], [], worker={"rank": 0}, truth={"culprits_allowed": [0]}),
    "tp2-exception": _case("tp2", "exception", LOST, [0], worker={"rank": 0}),
}
