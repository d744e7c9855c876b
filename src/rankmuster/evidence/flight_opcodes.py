"""A pickle walker that can build plain data and nothing else.

torch writes its dumps with torch::jit::Pickler, which uses about twenty opcodes, none of which can name a class or call
anything (facts: torch/csrc/jit/serialization/pickler.h). `pickle.load` on a file from a failing machine runs whatever
the file says; this walker has no opcode that could. It also knows the plain-data opcodes of protocols 2 to 5, so that
dumps re-written by other tools can be read. Every length and index is checked against the bytes that are there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any


class PickleRefused(ValueError):
    """The pickle names a global, or asks for something else that only code can do."""


class PickleDamaged(ValueError):
    """The pickle ends early or is not well formed. `partial`: the outermost object as far as it was built, or None."""

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial


MAX_MEMO_GAP = 1 << 16
"""How far a memo index may run ahead of the memo's size; honest writers count up by one."""

MAX_LONG_BYTES = 64
"""Bytes of one LONG1; nanosecond stamps need 8."""

MAX_VALUES = 16_000_000
"""Values put into containers one at a time, on the stack and in the memo: 1.3 GB of them at most. One takes a byte of
the file, so that 128 MiB could take 10 GB, and so could a few KB that are packed. The largest honest dump known (2000
list all-to-alls of 1024 ranks) holds 8 million; entries that are read many at a time are not counted."""

LOOK_EVERY = 1 << 20
"""Bytes between two looks at how many there are."""

_CODE_OPCODES = {
    0x63: "GLOBAL",
    0x93: "STACK_GLOBAL",
    0x52: "REDUCE",
    0x62: "BUILD",
    0x69: "INST",
    0x6F: "OBJ",
    0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x50: "PERSID",
    0x51: "BINPERSID",
}

_KEY_TYPES = frozenset((str, int))
"""Hashing a nest of shared tuples takes exponential time; a dump's keys are texts, and other tools' may be numbers."""

_I32 = struct.Struct("<i").unpack_from
_U32 = struct.Struct("<I").unpack_from
_U64 = struct.Struct("<Q").unpack_from
_U16 = struct.Struct("<H").unpack_from
_F64 = struct.Struct(">d").unpack_from


Ahead = Callable[[int, dict[int, Any]], tuple[int, int]]
"""From a position and the memo: the position behind all dicts from there on that are taken, and how many they are."""


def walk(data: bytes, on_dict: Callable[[dict[Any, Any]], Any] | None = None, ahead: Ahead | None = None) -> Any:
    """The plain object that `data` describes.

    `on_dict` is called with every dict as its items are set and what it returns takes the dict's place, so that a
    caller can take entries into columns one at a time. Behind each one that was replaced, `ahead` may take as many
    more as it likes, each of which leaves the same value; it is not asked once a memo index was used twice.

    Raises PickleRefused for anything but plain data, PickleDamaged for a broken or cut pickle.
    """
    stack: list[Any] = []
    try:
        return _walk(data, stack, {}, on_dict, ahead)
    except PickleRefused:
        raise
    except (IndexError, struct.error, KeyError, TypeError, AttributeError, OverflowError, ValueError) as error:
        raise PickleDamaged(f"broken pickle: {type(error).__name__} {error}".strip(), _outermost(stack)) from None


def piece(data: bytes, memo: dict[int, Any]) -> Any:
    """The same for a part of a pickle, closed by STOP, with what the memo holds there. Raises ValueError and others."""
    return _walk(data, [], memo, None, None)


def _outermost(stack: list[Any]) -> Any:
    """The outermost dict as far as it goes, with the keys that were on their way."""
    outer = next((value for value in stack if isinstance(value, dict)), None)
    if outer is None:
        return None
    built = dict(outer)
    above = next(place for place, value in enumerate(stack) if value is outer) + 1
    if above < len(stack) and stack[above] is _MARK:
        # Up to the next mark stand the items that wait to be set; what is behind it belongs to the last of them.
        end = next((place for place in range(above + 1, len(stack)) if stack[place] is _MARK), len(stack))
        waiting = stack[above + 1 : end]
        for key, value in zip(waiting[::2], waiting[1::2], strict=False):
            if isinstance(key, str):
                built.setdefault(key, value)
    return built


class _Mark:
    """The one object that marks the stack."""


_MARK = _Mark()


def _walk(
    data: bytes,
    stack: list[Any],
    memo: dict[int, Any],
    on_dict: Callable[[dict[Any, Any]], Any] | None,
    ahead: Ahead | None,
) -> Any:
    marks: list[int] = []
    push = stack.append
    pop = stack.pop
    size = len(data)
    position = 0
    values = 0
    while position < size:
        if values + len(stack) + len(memo) > MAX_VALUES:
            raise PickleDamaged(f"more than {MAX_VALUES} values at byte {position}")
        stop = min(size, (position // LOOK_EVERY + 1) * LOOK_EVERY)
        while position < stop:
            op = data[position]
            position += 1
            if op == 0x68:  # BINGET
                push(memo[data[position]])
                position += 1
            elif op == 0x6A:  # LONG_BINGET
                push(memo[_U32(data, position)[0]])
                position += 4
            elif op == 0x4B:  # BININT1
                push(data[position])
                position += 1
            elif op == 0x4A:  # BININT
                push(_I32(data, position)[0])
                position += 4
            elif op == 0x4D:  # BININT2
                push(_U16(data, position)[0])
                position += 2
            elif op == 0x8A:  # LONG1
                length = data[position]
                if length > MAX_LONG_BYTES or position + 1 + length > size:
                    raise PickleDamaged(f"a number of {length} bytes")
                push(int.from_bytes(data[position + 1 : position + 1 + length], "little", signed=True))
                position += 1 + length
            elif op == 0x47:  # BINFLOAT
                push(_F64(data, position)[0])
                position += 8
            elif op == 0x4E:
                push(None)
            elif op == 0x88:
                push(True)
            elif op == 0x89:
                push(False)
            elif op == 0x28:  # MARK
                marks.append(len(stack))
                push(_MARK)
            elif op == 0x5D:
                push([])
            elif op == 0x7D:
                push({})
            elif op == 0x75:  # SETITEMS
                start = marks.pop()
                items = stack[start + 1 :]
                del stack[start:]
                target = stack[-1]
                keys = items[::2]
                if not set(map(type, keys)) <= _KEY_TYPES:
                    raise PickleDamaged("a key that is neither text nor number")
                target.update(zip(keys, items[1::2], strict=True))
                values += len(items)
                if on_dict is not None and len(stack) > 1:
                    taken = stack[-1] = on_dict(target)
                    if ahead is not None and taken is not target:
                        position, count = ahead(position, memo)
                        stack += [taken] * count
            elif op == 0x65:  # APPENDS
                start = marks.pop()
                items = stack[start + 1 :]
                del stack[start:]
                stack[-1].extend(items)
                values += len(items)
            elif op == 0x58:  # BINUNICODE
                length = _U32(data, position)[0]
                position = _push_text(data, position + 4, length, push)
            elif op == 0x8C:  # SHORT_BINUNICODE
                position = _push_text(data, position + 1, data[position], push)
            elif op == 0x8D:  # BINUNICODE8
                position = _push_text(data, position + 8, _U64(data, position)[0], push)
            elif op == 0x71:  # BINPUT
                if data[position] in memo:
                    ahead = None
                memo[data[position]] = stack[-1]
                position += 1
            elif op == 0x72:  # LONG_BINPUT
                index = _U32(data, position)[0]
                if index > len(memo) + MAX_MEMO_GAP:
                    raise PickleDamaged(f"a memo index of {index} with {len(memo)} entries in the memo")
                if index in memo:
                    ahead = None
                memo[index] = stack[-1]
                position += 4
            elif op == 0x94:  # MEMOIZE
                if len(memo) in memo:
                    ahead = None
                memo[len(memo)] = stack[-1]
            elif op == 0x86:  # TUPLE2
                second = pop()
                stack[-1] = (stack[-1], second)
                values += 2
            elif op == 0x85:  # TUPLE1
                stack[-1] = (stack[-1],)
                values += 1
            elif op == 0x87:  # TUPLE3
                third, second = pop(), pop()
                stack[-1] = (stack[-1], second, third)
                values += 3
            elif op == 0x74:  # TUPLE
                start = marks.pop()
                items = stack[start + 1 :]
                del stack[start:]
                push(tuple(items))
                values += len(items)
            elif op == 0x29:
                push(())
            elif op == 0x73:  # SETITEM
                value, key = pop(), pop()
                if type(key) not in _KEY_TYPES:
                    raise PickleDamaged("a key that is neither text nor number")
                target = stack[-1]
                target[key] = value
                values += 2
                if on_dict is not None and len(stack) > 1:
                    stack[-1] = on_dict(target)
            elif op == 0x61:  # APPEND
                value = pop()
                stack[-1].append(value)
                values += 1
            elif op == 0x80:  # PROTO
                if data[position] > 5:
                    raise PickleDamaged(f"pickle protocol {data[position]}")
                position += 1
            elif op == 0x95:  # FRAME
                position += 8
            elif op == 0x2E:  # STOP
                if len(stack) != 1:
                    raise PickleDamaged(f"{len(stack)} objects at the end, not one")
                return pop()
            elif op in _CODE_OPCODES:
                raise PickleRefused(
                    f"opcode {_CODE_OPCODES[op]} at byte {position - 1}: it names a class or calls one, which no "
                    "Flight Recorder dump does; nothing of it was run"
                )
            else:
                raise PickleDamaged(f"unknown opcode 0x{op:02x} at byte {position - 1}")
    raise IndexError(f"ends after {size} bytes without STOP")


def _push_text(data: bytes, start: int, length: int, push: Callable[[Any], None]) -> int:
    end = start + length
    if end > len(data):
        raise IndexError(f"a text of {length} bytes at {start} of {len(data)}")
    push(data[start:end].decode("utf-8", errors="replace"))
    return end
