"""The built-in profiles: operations and sizes of real loads, each with its derivation from a model's shape."""

from __future__ import annotations

from rankmuster.model.benchmark import Profile

ADMISSION_PROFILE = "links"
"""What admission measures unless told otherwise."""


class UnknownProfile(Exception):
    """No profile has this name; the message lists those that there are."""


def built_in() -> tuple[Profile, ...]:
    """All built-in profiles, in the order in which they are listed."""
    raise NotImplementedError


def named(name: str) -> Profile:
    """A built-in profile. Raises UnknownProfile."""
    raise NotImplementedError
