"""What several commands are given, read and checked once: variables, a profile, names, files within a size.

Whatever is wrong with it is the command's error, told as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.model.benchmark import Profile
    from rankmuster.model.fingerprint import Fingerprint


def variables_of(words: Sequence[str]) -> dict[str, str]:
    """NAME -> value of `--env NAME=VALUE`; the last of a name counts. Raises CommandError."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or "\0" in value:
            raise CommandError(f"--env wants NAME=VALUE, like NCCL_ALGO=Ring, not {word!r}")
        found[name] = value
    return found


def profile_of(name: str) -> Profile:
    """The built-in profile of that name, or a file's. Raises CommandError."""
    with doing(f"reading the profile {name}"):
        from rankmuster.bench.profile_choice import NoProfile, chosen

        try:
            return chosen(name)
        except NoProfile as error:
            raise CommandError(str(error)) from error


def names_of(text: str, option: str) -> tuple[str, ...]:
    """The nodes of `A,B,...`. Raises CommandError where one stands in it twice."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(set(names)) < len(names):
        raise CommandError(f"{option} names a node twice")
    return names


def bytes_of(path: Path, most: int, what: str) -> bytes:
    """A regular file, or standard input by its name, of at most `most` bytes. `what` it should be: "set of results".

    Raises CommandError.
    """
    from rankmuster.evidence.given_file import CannotRead, bytes_in

    try:
        return bytes_in(path, most, what)
    except CannotRead as error:
        raise CommandError(str(error)) from error


def stored_fingerprint(path: Path) -> Fingerprint:
    """The fingerprint in a file. Raises CommandError."""
    with doing(f"reading {path}"):
        from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
        from rankmuster.evidence.plain_yaml import MOST_BYTES

        document = bytes_of(path, MOST_BYTES, "fingerprint")
        try:
            return read_fingerprint(document)
        except FingerprintRefused as error:
            raise CommandError(f"{path} cannot be used: {error}") from error
