"""Rules for free text: tokens, keys, passwords and addresses that do not belong to the instance."""

from __future__ import annotations


def scrub(data: bytes) -> bytes:
    """`data` with secrets replaced. (Rules follow.)"""
    return data
