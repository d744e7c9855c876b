"""A fingerprint as YAML and JSON (schema `rankmuster.fingerprint/1`)."""

from __future__ import annotations

from rankmuster.model.fingerprint import Fingerprint


def as_yaml(fingerprint: Fingerprint) -> str:
    raise NotImplementedError


def as_json(fingerprint: Fingerprint) -> str:
    raise NotImplementedError
