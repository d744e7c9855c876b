"""The profile that somebody names: a built-in one, or a file's."""

from __future__ import annotations

from pathlib import Path

from rankmuster.bench.profile_file import MOST_BYTES, ProfileError, read_profile
from rankmuster.bench.profiles import UnknownProfile, named
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
            if not Path(name).is_file():
                raise NoProfile(f"{error}; or name a file of one") from error
    try:
        with Path(name).open("rb") as file:
            return read_profile(file.read(MOST_BYTES + 1), name)
    except OSError as error:
        raise NoProfile(f"cannot read {name}: {error.strerror or error}") from error
    except ProfileError as error:
        raise NoProfile(str(error)) from error
