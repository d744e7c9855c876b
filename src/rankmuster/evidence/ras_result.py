"""The names of ncclResult_t, which RAS writes as words in text and as numbers in JSON (NCCL src/nccl.h.in)."""

from __future__ import annotations

_IN_PROGRESS = 7
_NAMES = {
    1: "ncclUnhandledCudaError",
    2: "ncclSystemError",
    3: "ncclInternalError",
    4: "ncclInvalidArgument",
    5: "ncclInvalidUsage",
    6: "ncclRemoteError",
    8: "ncclTimeout",
}
_PHRASES = {
    "Unhandled CUDA error": "ncclUnhandledCudaError",
    "System error": "ncclSystemError",
    "Internal error": "ncclInternalError",
    "Invalid argument": "ncclInvalidArgument",
    "Invalid usage": "ncclInvalidUsage",
    "Remote process error": "ncclRemoteError",
    "NCCL operation in progress": "ncclInProgress",
}


def name_of_code(code: int | None) -> str | None:
    """The name of a failed result; None for success, for "in progress" (no failure either) and for an unknown one."""
    if code is None or code in (0, _IN_PROGRESS):
        return None
    return _NAMES.get(code, f"ncclResult {code}")


def name_of_phrase(phrase: str) -> str:
    """The name for what a text report says; a phrase that is not known stays as it is."""
    return _PHRASES.get(phrase.strip(), phrase.strip())
