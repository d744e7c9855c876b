"""Profiles of one's own, as YAML (schema `rankmuster.profile/1`), read strictly: errors name the line and the field."""

from __future__ import annotations

from rankmuster.model.benchmark import Profile

SCHEMA = "rankmuster.profile/1"


class ProfileError(Exception):
    """The file is no profile; the message names the line, the field and what would be right."""


def read_profile(data: bytes, source: str) -> Profile:
    """A profile from its YAML. Raises ProfileError."""
    raise NotImplementedError


def as_yaml(profile: Profile) -> str:
    """The profile as `read_profile` reads it."""
    raise NotImplementedError
