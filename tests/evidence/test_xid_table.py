"""The tables say what NVIDIA's documents say."""

import pytest

from rankmuster.evidence.xid_table import SAME_GPU_FOLLOWS, XIDS, decode_nvlink5, subcode, sxid_effect
from rankmuster.model.kernel import GpuAfter


def test_the_codes_that_take_a_gpu_away_say_so():
    assert XIDS[79].after is GpuAfter.LOST
    assert {
        code for code in (46, 62, 95, 109, 110, 119, 120, 140, 158) if XIDS[code].after is not GpuAfter.RESET
    } == set()
    assert {code for code in (13, 31, 43, 45, 63, 92, 94) if XIDS[code].after is not GpuAfter.OK} == set()


def test_every_rule_speaks_of_codes_in_the_table():
    assert {c for code, causes in SAME_GPU_FOLLOWS.items() for c in (code, *causes)} <= XIDS.keys()


def test_the_sub_code_is_bits_20_to_25():
    assert subcode(0x021425C6) == 0x21


@pytest.mark.parametrize(
    ("code", "unit", "fatal", "sub", "status", "after", "lead"),
    [
        (149, "NETIR_LINK_EVT", True, 0x02, 0, GpuAfter.RESET, "signal integrity"),
        (149, "NETIR_LINK_EVT", True, 0x26, 0, GpuAfter.OK, None),
        (149, "NETIR_LINK_EVT", True, 0x15, 0, GpuAfter.RESET, "peer device"),
        (149, "NETIR_BER_EVENT", True, 0, 0, GpuAfter.OK, "cables"),
        (149, "NETIR_INT", True, 0, 0, GpuAfter.RESET, None),
        (150, "MSE_WATCHDOG", False, 0, 0, GpuAfter.RESET, None),
        (144, "SAW_MVB", False, 0, 0x10, GpuAfter.RESET, None),
        (145, "RLW_REMAP", False, 0, 0x20, GpuAfter.UNKNOWN, "what Xid 154 says"),
        (145, "RLW_REMAP", False, 0, 0x80000000, GpuAfter.OK, None),
        (146, "TLW_RX", True, 0, 0, GpuAfter.RESET, None),
        (147, "TREX", False, 0, 0, GpuAfter.OK, None),
    ],
)
def test_nvlink5_rules(code, unit, fatal, sub, status, after, lead):
    decoded = decode_nvlink5(code, unit, fatal=fatal, intrinfo=sub << 20, status=status)
    assert (decoded.after, decoded.lead) == (after, lead)


@pytest.mark.parametrize(
    ("code", "fatal", "effect"),
    [
        (11012, None, "none"),
        (20001, False, "slow"),
        (12028, False, "hang"),
        (11004, False, "hang"),
        (20034, True, "partition"),
        (12022, False, "none"),
        (12022, None, "partition"),
        (23005, True, "fabric"),
        (22003, None, "fabric"),
        (55555, True, "partition"),
        (55555, None, "unknown"),
    ],
)
def test_the_effect_of_a_switch_error(code, fatal, effect):
    assert sxid_effect(code, fatal) == effect
