"""What each pipeline stage calls in one step, after the engines: which groups, operations and sizes, in which order.

Sizes are those of an 8 to 70 B model's prefill or training step; nothing depends on them but that they differ between
call sites.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.flight.calls import Call, Part, Slot, Way, collective, message
from benchmarks.flight.settings import Settings, Style

HIDDEN = 5120
TOKENS = 512
PATTERNS = 3
"""Different distributions of tokens over experts that repeat."""


def step_of(job: Settings, stage: int) -> list[Call]:
    """The calls of one step of every rank of `stage`."""
    calls = _styled(job, stage)
    if not job.world_messages:
        return calls
    return [replace(call, in_world=True) if call.way is not Way.NONE else call for call in calls]


def _styled(job: Settings, stage: int) -> list[Call]:
    if job.style is Style.MEGATRON:
        return _megatron(job, stage)
    return _vllm(job, stage) if job.style is Style.VLLM else _sglang(job, stage)


def _layers(job: Settings, stage: int) -> int:
    """Stages differ: the last has the head instead of a layer."""
    return max(1, job.layers - (stage == job.pp - 1 and job.pp > 1))


def _reduced(slot: Slot, site: str, rows: int = TOKENS) -> Call:
    shape = ((rows, HIDDEN),)
    return collective(slot, "all_reduce", shape, shape, "BFloat16", site)


def _gathered(slot: Slot, members: int, site: str, row: int) -> Call:
    return collective(slot, "_all_gather_base", ((row,),), ((row * members,),), "BFloat16", site)


def _scattered(slot: Slot, members: int, site: str, row: int) -> Call:
    return collective(slot, "_reduce_scatter_base", ((row * members,),), ((row,),), "Float", site)


def _exchanged(pattern: int, site: str) -> Call:
    return Call(Slot.EP, (Part("all_to_all", (), (), "BFloat16"),), site, gpu_us=90, pattern=pattern)


def _megatron(job: Settings, stage: int) -> list[Call]:
    hidden = ((1, TOKENS, HIDDEN), (1, TOKENS, 64))
    calls: list[Call] = []
    for part in range(2):
        if stage > 0:
            calls += message(Slot.PP_PREV, Way.RECV, hidden, "BFloat16", "recv_forward", batched=True)
        for layer in range(_layers(job, stage)):
            if job.tp > 1:
                calls.append(_reduced(Slot.TP, "attention.proj"))
            if job.ep > 1:
                calls.append(_exchanged((layer + part) % PATTERNS, "moe.dispatch"))
                calls.append(_exchanged(PATTERNS + (layer + part) % PATTERNS, "moe.combine"))
            if job.tp > 1:
                calls.append(_reduced(Slot.TP, "mlp.down"))
        if stage < job.pp - 1:
            calls += message(Slot.PP_NEXT, Way.SEND, hidden, "BFloat16", "send_forward", batched=True)
    if stage == job.pp - 1 and job.tp > 1:
        calls.append(_reduced(Slot.TP, "vocab_loss", 1))
    for _ in range(2):
        if stage < job.pp - 1:
            calls += message(Slot.PP_NEXT, Way.RECV, hidden[:1], "BFloat16", "recv_backward", batched=True)
        for _ in range(_layers(job, stage)):
            if job.tp > 1:
                calls.append(_gathered(Slot.TP, job.tp, "sequence.gather", TOKENS * HIDDEN))
                calls.append(_scattered(Slot.TP, job.tp, "sequence.scatter", TOKENS * 64))
        if stage > 0:
            calls += message(Slot.PP_PREV, Way.SEND, hidden[:1], "BFloat16", "send_backward", batched=True)
    if job.dp > 1:
        bucket = _scattered(Slot.DP, job.dp, "grads.bucket", 65_536).parts[0]
        tail = _scattered(Slot.DP, job.dp, "grads.bucket", 9_216).parts[0]
        calls.append(Call(Slot.DP, (bucket, tail), "grads.buckets", closing="REDUCE_SCATTER_coalesced", gpu_us=200))
        calls.append(_gathered(Slot.DP, job.dp, "params.gather", 65_536))
    calls.append(collective(Slot.WORLD, "all_reduce", ((1,),), ((1,),), "Float", "grad_norm"))
    return calls


def _vllm(job: Settings, stage: int) -> list[Call]:
    hidden = ((TOKENS, HIDDEN), (TOKENS, HIDDEN))
    calls: list[Call] = []
    if job.dp > 1:
        calls.append(collective(Slot.DP, "all_reduce", ((4, job.dp),), ((4, job.dp),), "Int", "dp.coordinate"))
    if stage > 0:
        calls += message(Slot.PP_PREV, Way.RECV, hidden, "BFloat16", "recv_tensor_dict", batched=False)
    if job.tp > 1:
        calls.append(_reduced(Slot.TP, "embedding"))
    for layer in range(_layers(job, stage)):
        if job.tp > 1:
            calls.append(_reduced(Slot.TP, "attention.o_proj"))
        if job.ep > 1:
            calls.append(_exchanged(layer % PATTERNS, "fused_moe.dispatch"))
        if job.tp > 1:
            calls.append(_reduced(Slot.TP, "mlp.down_proj"))
    if stage < job.pp - 1:
        calls += message(Slot.PP_NEXT, Way.SEND, hidden, "BFloat16", "send_tensor_dict", batched=False)
    elif job.tp > 1:
        calls.append(_gathered(Slot.TP, job.tp, "logits.gather", 16 * 8000))
    calls.append(collective(Slot.WORLD, "all_reduce", ((1,),), ((1,),), "Int", "has_unfinished"))
    return _captured(job, calls)


def _sglang(job: Settings, stage: int) -> list[Call]:
    calls: list[Call] = []
    if stage > 0:
        calls += message(Slot.PP_PREV, Way.RECV, ((TOKENS, HIDDEN),), "BFloat16", "pp.recv_proxy", batched=True)
    if job.tp > 1:
        head = collective(Slot.TP, "broadcast", ((16,),), ((16,),), "Long", "broadcast_pyobj")
        calls.append(replace(head, rooted=True))
    if job.dp > 1:
        calls.append(_gathered(Slot.DP, job.dp, "dp_attention.sync", 6))
    for layer in range(_layers(job, stage)):
        if job.ep > 1:
            calls.append(_exchanged(layer % PATTERNS, "ep_moe.dispatch"))
            calls.append(_exchanged(PATTERNS + layer % PATTERNS, "ep_moe.combine"))
        if job.tp > 1:
            calls.append(_reduced(Slot.TP, "layer.communicate"))
            calls.append(_reduced(Slot.TP, "layer.mlp"))
    if stage < job.pp - 1:
        calls += message(Slot.PP_NEXT, Way.SEND, ((TOKENS, HIDDEN),), "BFloat16", "pp.send_proxy", batched=True)
    calls.append(collective(Slot.WORLD, "all_reduce", ((2,),), ((2,),), "Long", "rank_consensus"))
    return _captured(job, calls)


def _captured(job: Settings, calls: list[Call]) -> list[Call]:
    """Decode runs in captured graphs: three collectives of its widest group left numbers and no entries."""
    place = next((index for index, call in enumerate(calls) if call.slot is Slot.TP and not call.rooted), None)
    if not job.gaps or place is None:
        return calls
    return [replace(call, gap=3) if index == place else call for index, call in enumerate(calls)]
