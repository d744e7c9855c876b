"""Messages and factors as nccl-tests has them."""

from __future__ import annotations

import pytest

from rankmuster.diagnose.signatures import Signature
from rankmuster.diagnose.slow.bandwidth import bus_gb_per_s, message_bytes


def call(op: str, ins: tuple[int, ...], outs: tuple[int, ...], dtype: str = "Float") -> Signature:
    return Signature(op, (ins,), (outs,), (dtype,), (dtype,))


@pytest.mark.parametrize(
    ("signature", "size", "factor"),
    [
        (call("all_reduce", (1000,), (1000,)), 4000, 1.75),
        (call("_all_gather_base", (1000,), (8000,)), 32000, 0.875),
        (call("_reduce_scatter_base", (8000,), (1000,), "Half"), 16000, 0.875),
        (call("all_to_all_single", (8000,), (8000,), "Float8_e4m3fn"), 8000, 0.875),
        (call("broadcast", (10,), (10,), "Long"), 80, 1.0),
    ],
)
def test_known_operations(signature: Signature, size: int, factor: float) -> None:
    assert message_bytes(signature) == size
    assert bus_gb_per_s(signature.op, size, 8, 1.0) == pytest.approx(size * factor / 1e-3 / 1e9)


@pytest.mark.parametrize(
    "signature",
    [
        call("gather", (10,), (10,)),
        call("barrier", (1,), (1,)),
        call("all_reduce", (10,), (10,), "Mystery"),
        call("all_reduce", (-3,), (10,)),
        call("all_reduce", (1 << 40, 1 << 40), (10,)),
        call("all_reduce", (0,), (0,)),
        Signature("all_reduce", (), (), (), ()),
        Signature("all_reduce", ((1,), (2,), (3,)), (), ("Float", "Half"), ()),
    ],
)
def test_what_is_unknown_has_no_bytes(signature: Signature) -> None:
    assert message_bytes(signature) is None


def test_lists_add_up() -> None:
    assert message_bytes(Signature("all_reduce", ((2, 3), ()), (), ("Float", "Half"), ())) == 26
    assert message_bytes(Signature("all_reduce", ((2, 3), (4,)), (), ("Float",), ())) == 40


def test_no_time_and_no_peers_have_no_bandwidth() -> None:
    assert bus_gb_per_s("all_reduce", 4000, 8, 0.0) is None
    assert bus_gb_per_s("all_reduce", 4000, 8, 5e-324) is None
    assert bus_gb_per_s("all_reduce", 4000, 8, 1e-300) is None
    assert bus_gb_per_s("all_reduce", 4000, 8, float("nan")) is None
    assert bus_gb_per_s("all_reduce", 4000, 1, 1.0) is None
    assert bus_gb_per_s("all_reduce", None, 8, 1.0) is None
