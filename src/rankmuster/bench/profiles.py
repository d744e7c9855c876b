"""The built-in profiles: operations and sizes of real loads, each with its derivation from a model's shape.

A size is what the operation moves as nccl-tests counts it: of an all-reduce the whole tensor, of an all-gather the
gathered whole, of an all-to-all one rank's whole buffer, of a send-receive the message. All are bfloat16, 2 bytes.
"""

from __future__ import annotations

from rankmuster.model.benchmark import Operation, Profile, Step

KIB = 1024
MIB = 1024 * KIB

BYTES = 2
"""Of one bfloat16 element."""

HIDDEN_70B = 8192
"""Hidden size of Llama 3 70B (its config.json), the usual model of eight-way tensor parallelism."""

VOCABULARY = 128_256
"""Of Llama 3 (its config.json): the logits of a token, gathered over the ranks that share the vocabulary."""

HIDDEN_V3 = 7168
"""Hidden size of DeepSeek V3 (its config.json), the usual model of expert parallelism."""

EXPERTS_PER_TOKEN = 8
"""Of DeepSeek V3: a token's hidden state goes to this many experts."""

DECODE_TOKENS = (1, 4, 16, 64, 256)
"""Tokens of one decode step: a lone request, usual batches, and 256, vLLM's usual max_num_seqs."""

PREFILL_TOKENS = (512, 2048, 8192)
"""Tokens of one prefill step: a short prompt, and the usual budgets of chunked prefill (max_num_batched_tokens)."""

DISPATCH_TOKENS = (16, 128, 1024)
"""Tokens of one rank that are dispatched at once: decode, DeepEP's low-latency limit of 128, and prefill."""

MICRO_BATCH_TOKENS = (16, 256, 4096)
"""Tokens that one pipeline stage hands to the next: decode, a large decode batch, a chunk of prefill."""

ADMISSION_PROFILE = "links"
"""What admission measures unless told otherwise."""

LINK_SIZES = tuple(16 * KIB * 4**step for step in range(8))
"""16 KiB to 256 MiB by factors of 4: two sizes of the latency regime, three of the transition, three of the plateau."""

PLATEAU_SIZES = (16 * MIB, 64 * MIB, 256 * MIB)
"""From 16 MiB on a healthy machine's runs differ by about 1 % (docs/measured.md), so these decide."""


class UnknownProfile(Exception):
    """No profile has this name; the message lists those that there are."""


def built_in() -> tuple[Profile, ...]:
    """All built-in profiles, in the order in which they are listed."""
    return _ALL


def named(name: str) -> Profile:
    """A built-in profile. Raises UnknownProfile."""
    for profile in _ALL:
        if profile.name == name:
            return profile
    raise UnknownProfile(f"there is no profile {name!r}; there are {', '.join(one.name for one in _ALL)}")


def _sizes(bytes_per_token: int, tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(bytes_per_token * count for count in tokens)


_LINKS = Profile(
    name=ADMISSION_PROFILE,
    description=(
        "Every link at the sizes where it is the limit, and a few below: all_reduce from 16 KiB to 256 MiB by factors "
        "of 4; all_gather, all_to_all and send_recv at 16, 64 and 256 MiB, where a weak link has nowhere to hide."
    ),
    steps=(
        Step(Operation.ALL_REDUCE, LINK_SIZES, iterations=50),
        Step(Operation.ALL_GATHER, PLATEAU_SIZES, iterations=30),
        Step(Operation.ALL_TO_ALL, PLATEAU_SIZES, iterations=30),
        Step(Operation.SEND_RECV, PLATEAU_SIZES, iterations=30),
    ),
)

_TP8_DECODE = Profile(
    name="tp8-decode",
    description=(
        "Decode of a 70B model over eight ranks, replayed from CUDA graphs: two all_reduce a layer of tokens x 8192 "
        "hidden x 2 bytes (1 to 256 tokens: 16 KiB to 4 MiB), and the all_gather of the logits, tokens x 128256 x 2 "
        "bytes (1, 16, 256 tokens)."
    ),
    steps=(
        Step(Operation.ALL_REDUCE, _sizes(HIDDEN_70B * BYTES, DECODE_TOKENS), graph=True, iterations=100, warmup=20),
        Step(Operation.ALL_GATHER, _sizes(VOCABULARY * BYTES, (1, 16, 256)), graph=True, iterations=100, warmup=20),
    ),
)

_TP8_PREFILL = Profile(
    name="tp8-prefill",
    description=(
        "Prefill of a 70B model over eight ranks, launched one by one: all_reduce of tokens x 8192 hidden x 2 bytes "
        "for chunks of 512, 2048 and 8192 tokens (8, 32 and 128 MiB)."
    ),
    steps=(Step(Operation.ALL_REDUCE, _sizes(HIDDEN_70B * BYTES, PREFILL_TOKENS), iterations=30),),
)

_EP_ALLTOALL = Profile(
    name="ep-alltoall",
    description=(
        "Dispatch and combine of experts in DeepSeek V3's shape: all_to_all of tokens x 8 experts x 7168 hidden x 2 "
        "bytes for 16, 128 and 1024 tokens of each rank (1.75, 14 and 112 MiB)."
    ),
    steps=(Step(Operation.ALL_TO_ALL, _sizes(EXPERTS_PER_TOKEN * HIDDEN_V3 * BYTES, DISPATCH_TOKENS), iterations=50),),
)

_PP_SENDRECV = Profile(
    name="pp-sendrecv",
    description=(
        "Hidden states from one pipeline stage to the next: send_recv of tokens x 8192 hidden x 2 bytes for 16, 256 "
        "and 4096 tokens (256 KiB, 4 MiB and 64 MiB)."
    ),
    steps=(Step(Operation.SEND_RECV, _sizes(HIDDEN_70B * BYTES, MICRO_BATCH_TOKENS), iterations=50),),
)

_ALL = (_LINKS, _TP8_DECODE, _TP8_PREFILL, _EP_ALLTOALL, _PP_SENDRECV)
