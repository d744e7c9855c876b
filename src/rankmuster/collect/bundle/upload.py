"""Copies a finished bundle to S3 or any other store that fsspec knows, under a deadline of its own.

Only after the local copy is safe: whatever happens here, the bundle stays where it is. The work is done in a child
process that is killed at the deadline, since a client may wait for ever for a server that accepts and says nothing.
Credentials come from the environment or the instance's role, never from the URL, and are never printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.bundle.upload_worker import MISSING_EXTRA, THERE
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.strip.pem import scrub_pem
from rankmuster.collect.strip.secrets import scrub_secrets

_URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://\S{1,1000}", re.IGNORECASE)
_CHAINED = "::"
_MAX_ANSWER = 64 << 10
_SHORTEST_SECRET = 4
"""Characters of a credential that is looked for in what a store says: shorter ones are words."""
_CREDENTIAL = re.compile(r"(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|SAS)", re.IGNORECASE)


class UploadFailed(Exception):
    """The bundle was not copied; the message says what was tried, what came back, and that the local copy is safe."""

    @property
    def there(self) -> bool:
        """Whether the place is taken."""
        return THERE in str(self)


@dataclass(frozen=True, slots=True)
class Uploaded:
    """`checked`: "sha256" when everything was read back and compared, "size" when only sizes were. `seconds`: taken."""

    url: str
    files: int
    size: int
    checked: str
    seconds: float


def upload(path: Path, url: str, deadline: Deadline, *, environ: Mapping[str, str] | None = None) -> Uploaded:
    """Copies the bundle at `path` to `url` (`s3://bucket/folder/name.tar.zst`; ending in `/`: below it, by its name).

    An archive appears at its place when it is whole; of a folder the manifest comes last, and what has none does not
    verify. Nothing that exists is written over. `environ`: what the child gets, else this process's own.

    Raises UploadFailed: refused before anything is sent, failed, or killed at the deadline.
    """
    shown = redact(url)
    if not _URL.fullmatch(url) or _CHAINED in url:
        raise UploadFailed(f"{shown} is no URL of a store; name one such as s3://BUCKET/FOLDER/")
    if "@" in url.split("://", 1)[1].split("/", 1)[0]:
        raise UploadFailed(
            f"{shown} holds a name or password: give credentials in the environment or as a role instead"
        )
    if not path.exists():
        raise UploadFailed(f"there is nothing to copy to {shown}: {path} does not exist")
    environment = dict(os.environ if environ is None else environ)
    begun = time.monotonic()
    answer = _child(
        {"path": str(path.absolute()), "url": url}, deadline, environment, f"{path} was not copied to {shown}"
    )
    seconds = time.monotonic() - begun
    if answer.get("kind") == MISSING_EXTRA:
        raise UploadFailed(
            f"{path} was not copied to {shown}: a library is missing ({_scrub(answer['error'], environment)}); "
            "install it with: pip install 'rankmuster[s3]'"
        )
    if "error" in answer:
        raise UploadFailed(
            f"{path} was not copied to {shown} ({_scrub(answer['error'], environment)}); the bundle itself is safe"
        )
    return Uploaded(str(answer["url"]), int(answer["files"]), int(answer["bytes"]), str(answer["checked"]), seconds)


def _child(task: Mapping[str, str], deadline: Deadline, environment: dict[str, str], what: str) -> dict[str, str]:
    command = [sys.executable, "-P", "-m", "rankmuster.collect.bundle.upload_worker"]
    if sys.version_info < (3, 11):
        command.remove("-P")
    try:
        child = subprocess.Popen(  # noqa: S603  # our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # clients log requests with their headers
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise UploadFailed(
            f"{what}: no process could be started ({error.strerror}); the bundle itself is safe"
        ) from error
    try:
        output, _ = child.communicate(json.dumps(task).encode(), timeout=max(deadline.remaining(), 0.01))
    except subprocess.TimeoutExpired as late:
        raise UploadFailed(f"{what}: not done by its deadline, and ended; the bundle itself is safe") from late
    finally:
        _end(child)
    lines = output[-_MAX_ANSWER:].strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise UploadFailed(
            f"{what}: its process ended with status {child.returncode} and said nothing; the bundle is safe"
        )
    return answer


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child and what it started; one in an uninterruptible wait is left to the system."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1.0)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def redact(url: str) -> str:
    """A URL as it may be shown: without userinfo and query."""
    clean = re.sub(r"://[^/\s]*@", "://***@", url.split("?", 1)[0])
    return "".join(character if character.isprintable() else "?" for character in clean)[:300]


def _scrub(text: str, environment: Mapping[str, str]) -> str:
    """What a store said, on one line, without secrets: those that have a form, and those of our own environment."""
    for name, value in environment.items():
        if len(value) >= _SHORTEST_SECRET and _CREDENTIAL.search(name):
            text = text.replace(value, "***")
    clean = scrub_secrets(scrub_pem(text.encode("utf-8", "replace"))).decode("utf-8", "replace")
    return " ".join(clean.split())[:600]
