"""The walker of dump pickles: plain data comes out, nothing is ever run, and no bytes can hurt it."""

from __future__ import annotations

import pickle
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from flight_sample import PICKLE
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.flight_opcodes import PickleDamaged, PickleRefused, walk

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=25,
)


def outcome(data: bytes) -> Any:
    """What the walker makes of `data`; only its two refusals may be raised."""
    try:
        return walk(data)
    except (PickleRefused, PickleDamaged) as refusal:
        return refusal


@given(PLAIN, st.integers(2, 5))
@settings(max_examples=200, deadline=None)
def test_plain_data_comes_out_as_it_went_in(value: Any, protocol: int) -> None:
    assert walk(pickle.dumps(value, protocol)) == value


def _hostile(marker: Path) -> dict[str, bytes]:
    """One pickle per opcode that can name or call something; each would make `marker` if it ran."""
    command = f"touch {marker}".encode()
    text = b"X" + struct.pack("<I", len(command)) + command
    system = b"cos\nsystem\n"
    return {
        "GLOBAL": b"\x80\x02" + system + text + b"\x85R.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + text + b"\x85R.",
        "REDUCE": b"\x80\x02N" + text + b"\x85R.",
        "INST": b"\x80\x02(" + text + b"ios\nsystem\n.",
        "OBJ": b"\x80\x02(N" + text + b"o.",
        "NEWOBJ": b"\x80\x02N" + text + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\x04N" + text + b"\x85}\x92.",
        "BUILD": b"\x80\x02}" + text + b"b.",
        "EXT1": b"\x80\x02\x82\x01.",
        "EXT2": b"\x80\x02\x83\x01\x00.",
        "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
        "PERSID": b"\x80\x02P" + command + b"\n.",
        "BINPERSID": b"\x80\x02" + text + b"Q.",
    }


@pytest.mark.parametrize("opcode", sorted(_hostile(Path("x"))))
def test_what_only_code_can_do_is_refused_by_name_and_never_run(opcode: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(PickleRefused, match=rf"opcode {opcode} at byte \d+.*nothing of it was run"):
        walk(_hostile(marker)[opcode])
    assert not marker.exists()


def test_a_real_dump_with_code_spliced_in_is_refused_as_a_whole(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for place in range(2, len(PICKLE), 7):
        outcome(PICKLE[:place] + _hostile(marker)["GLOBAL"][2:] + PICKLE[place:])
    assert not marker.exists()


@given(st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes(data: bytes) -> None:
    outcome(data)
    outcome(b"\x80\x02" + data)


@given(st.integers(0, len(PICKLE) - 1), st.integers(0, 255), st.integers(0, len(PICKLE)))
@settings(max_examples=300, deadline=None)
def test_flipped_and_cut_bytes_of_a_real_dump(place: int, byte: int, end: int) -> None:
    outcome((PICKLE[:place] + bytes([byte]) + PICKLE[place + 1 :])[:end])


@pytest.mark.parametrize("end", range(0, len(PICKLE), 11))
def test_a_cut_dump_keeps_its_outermost_object(end: int) -> None:
    with pytest.raises(PickleDamaged) as caught:
        walk(PICKLE[:end])
    assert caught.value.partial is None or isinstance(caught.value.partial, dict)


def _bombs() -> dict[str, bytes]:
    laughs = b"\x80\x02]q\x00" + b"".join(
        b"](" + b"h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(200)
    )
    doubled = b"\x80\x02)q\x00" + b"".join(
        b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(200)
    )
    return {
        "lists of themselves twice, two hundred deep": laughs + b".",
        "a tuple of tuples as a key, two hundred deep": b"\x80\x02}" + doubled[2:] + b"Ns.",
        "a list in itself": b"\x80\x02]q\x00h\x00a.",
        "a dict in itself": b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.",
        "a hundred thousand lists deep": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        "a hundred thousand tuples deep": b"\x80\x02)" + b"\x85" * 100_000 + b".",
        "a memo index far beyond the memo": b"\x80\x02Nr\xff\xff\xff\xff.",
        "a text longer than the file": b"\x80\x02X\xff\xff\xff\xff.",
        "a text of 2**63 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 2**63) + b".",
        "a number of 255 bytes": b"\x80\x02\x8a\xff" + b"\xff" * 255 + b".",
        "marks without end": b"\x80\x02" + b"(" * 100_000,
        "a frame beyond the file": b"\x80\x04\x95" + b"\xff" * 8 + b"N.",
    }


@pytest.mark.parametrize("bomb", sorted(_bombs()))
def test_bombs_cost_no_more_than_their_bytes(bomb: str) -> None:
    started = time.perf_counter()
    outcome(_bombs()[bomb])
    assert time.perf_counter() - started < 1.0
