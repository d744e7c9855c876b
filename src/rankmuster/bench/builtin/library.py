"""The NCCL that torch has loaded, called directly: what serving engines do (vLLM's and SGLang's PyNccl).

torch's own collectives reduce in place only, go through streams of their own and a watchdog, and add tens of
microseconds to a small operation: results would be torch's, and not comparable with nccl-tests'. These few functions
have had the same signatures since NCCL 2.7 (nccl.h); the library is the very file that torch uses, so a result belongs
to the version in the fingerprint.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

UNIQUE_ID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES
SUM = 0  # ncclSum

DATA_TYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "int64": 4,
    "half": 6,
    "float": 7,
    "double": 8,
    "bfloat16": 9,
    "f8e4m3": 10,  # since 2.24
    "f8e5m2": 11,
}
"""ncclDataType_t by nccl-tests' names (nccl.h)."""

_MAPS = "/proc/self/maps"
_NEEDED = ("ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce", "ncclSend", "ncclRecv", "ncclGroupStart")


class NoLibrary(Exception):
    """There is no NCCL in this process that could be called; the message says what was tried."""


class NcclFailed(Exception):
    """A call of NCCL's came back with an error."""


class UniqueId(ctypes.Structure):
    """ncclUniqueId: passed by value."""

    _fields_ = (("internal", ctypes.c_byte * UNIQUE_ID_BYTES),)


def mapped(pattern: str) -> tuple[str, ...]:
    """Paths of the libraries in this process whose file name matches, each once."""
    found: dict[str, None] = {}
    with open(_MAPS, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            path = line.rstrip("\n").partition("/")[2]
            if path and re.search(pattern, path.rpartition("/")[2]):
                found[f"/{path}"] = None
    return tuple(found)


def load() -> Library:
    """torch must have been imported before: it loads its NCCL.

    Raises NoLibrary.
    """
    tried = []
    for path in (*mapped(r"^libnccl\.so"), *mapped(r"^libtorch_cuda\.so"), "libnccl.so.2"):
        try:
            handle = ctypes.CDLL(path)
            for name in _NEEDED:
                getattr(handle, name)
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
            continue
        return Library(handle, path)
    raise NoLibrary("no NCCL library could be used: " + "; ".join(tried))


class Library:
    """Calls by name; each raises NcclFailed unless NCCL says success."""

    def __init__(self, handle: Any, path: str) -> None:
        self.path = path
        self._handle = handle
        handle.ncclGetErrorString.restype = ctypes.c_char_p
        handle.ncclGetErrorString.argtypes = [ctypes.c_int]
        self._last: Any = getattr(handle, "ncclGetLastError", None)
        if self._last is not None:
            self._last.restype = ctypes.c_char_p
            self._last.argtypes = [ctypes.c_void_p]

    def has(self, name: str) -> bool:
        """Whether this NCCL has that function."""
        return hasattr(self._handle, name)

    def bound(self, name: str, *arguments: Any) -> Callable[[], None]:
        """A call with these ctypes values, made ready: nothing is converted when it is made, at every iteration."""
        function = getattr(self._handle, name)
        kept = arguments
        check = self._check

        def call() -> None:
            code = function(*kept)
            if code:
                check(name, code)

        return call

    def version(self) -> str:
        """`2.28.9`."""
        code = ctypes.c_int(0)
        self.bound("ncclGetVersion", ctypes.byref(code))()
        number = code.value
        # NCCL_VERSION: up to 2.8 X*1000 + Y*100 + Z, since 2.9 X*10000 + Y*100 + Z.
        large = 1000 if number < 10_000 else 10_000
        return f"{number // large}.{number % large // 100}.{number % 100}"

    def unique_id(self) -> bytes:
        """A new communicator's id, which every rank of it needs."""
        made = UniqueId()
        self.bound("ncclGetUniqueId", ctypes.byref(made))()
        return bytes(memoryview(made))

    def communicator(self, unique_id: bytes, rank: int, ranks: int) -> ctypes.c_void_p:
        """Joins it, and returns once all ranks have."""
        comm = ctypes.c_void_p()
        given = UniqueId.from_buffer_copy(unique_id)
        self.bound("ncclCommInitRank", ctypes.byref(comm), ctypes.c_int(ranks), given, ctypes.c_int(rank))()
        return comm

    def _check(self, name: str, code: int) -> None:
        said = (self._handle.ncclGetErrorString(code) or b"").decode(errors="replace")
        more = (self._last(None) or b"").decode(errors="replace").strip() if self._last is not None else ""
        raise NcclFailed(f"{name} failed: {said} ({code})" + (f"; last error: {more}" if more else ""))
