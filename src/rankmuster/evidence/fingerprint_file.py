"""A stored fingerprint, read back and checked (schema `rankmuster.fingerprint/1`)."""

from __future__ import annotations

from rankmuster.model.fingerprint import Fingerprint


class FingerprintRefused(Exception):
    """It is no fingerprint, or not the one that was written; the message says where and how."""


def read_fingerprint(data: bytes) -> Fingerprint:
    """The fingerprint in the YAML or JSON that `report.fingerprint_yaml` wrote. Raises FingerprintRefused."""
    raise NotImplementedError
