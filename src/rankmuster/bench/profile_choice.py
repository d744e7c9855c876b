"""The profile that somebody names: a built-in one, or a file's."""

from __future__ import annotations

import os
from pathlib import Path

from rankmuster.bench.profile_file import MOST_BYTES, ProfileError, read_profile
from rankmuster.bench.profiles import UnknownProfile, named
from rankmuster.evidence.given_file import CannotRead, bytes_in
from rankmuster.model.benchmark import Profile

_ENDINGS = (".yaml", ".yml")


class NoProfile(Exception):
    """Neither a built-in profile nor a file of one; the message says what is wrong with it."""


def chosen(name: str) -> Profile:
    """`links`, or `path/to/profile.yaml`: with a folder or an ending of YAML it is a file. Raises NoProfile."""
    if "/" not in name and not name.endswith(_ENDINGS):
        try:
            return named(name)
        except UnknownProfile as error:
            if not os.path.lexists(name):
                raise NoProfile(f"{error}; or name a file of one") from error
    try:
        return read_profile(bytes_in(Path(name), MOST_BYTES, "profile"), name)
    except CannotRead as error:
        raise NoProfile(f"{error}; --profile wants a built-in profile's name, or a file of one") from error
    except ProfileError as error:
        raise NoProfile(str(error)) from error
