"""A bundle out of a container by exec: `rankmuster collect` runs there, and what it wrote comes over the stream.

The container may have no shell, no rankmuster, no place to write; the command may hang, be killed with its pod, or
print anything. Only what begins as an archive is kept, and merging or verifying it is what says whether it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from rankmuster.adapters.collect_here import CLOSE_SECONDS, LEAST_SECONDS, SEND_SECONDS, Taken
from rankmuster.adapters.kube.api import Api, Forbidden, KubeError, Ran
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.strip.secrets import scrub_words
from rankmuster.evidence.packed_stream import ZSTD
from rankmuster.model.kube import EVIDENCE_FOLDER, PodView
from rankmuster.report.inert import plain

MOST_BYTES = 2 << 30
"""Of one pod's bundle, as of another host's."""

PROBE_SECONDS = 5.0
"""For the look at what a container has: a shell that starts and asks for eight names."""

EXEC_RIGHT = "get and create pods/exec"
"""A websocket is opened with a GET; newer API servers ask for `create` as well."""

PROGRAM = ("rankmuster",)

TOOLS = ("rankmuster", "python3", "nc", "bash", "tar", "timeout", "head", "grep", "sleep", "nvidia-smi")

PROBE = (
    'for c in "$@"; do command -v "$c" >/dev/null 2>&1 && echo "has $c"; done; '
    "rankmuster --version >/dev/null 2>&1 && echo runs rankmuster; exit 0"
)
FETCH = (
    'd=$(mktemp -d 2>/dev/null) || d=$(mktemp -d -p "$0") || exit 3; trap \'rm -rf "$d"\' EXIT; '
    '"$@" --output "$d/b.tar.zst" >&2; s=$?; cat "$d/b.tar.zst" 2>/dev/null; exit "$s"'
)
"""`$0`: another folder than that for temporary files, where the root file system is read-only."""


def tools_in(api: Api, pod: PodView, container: str, deadline: Deadline) -> frozenset[str]:
    """What of TOOLS is there, and "runs" where rankmuster works. Raises KubeError where there is not even a shell."""
    command = ["sh", "-c", PROBE, "sh", *TOOLS]
    ran = api.execute(pod.name, pod.namespace, container, command, deadline.within(PROBE_SECONDS), most_bytes=64 << 10)
    if ran.status != 0:
        raise KubeError(f"no shell runs in container {container} of {where(pod)} ({how_it_ended(ran)})")
    lines = ran.output.decode("ascii", "replace").split("\n")
    found = {line.removeprefix("has ") for line in lines if line.startswith("has ")} & set(TOOLS)
    return frozenset(found | ({"runs"} if "runs rankmuster" in lines else set()))


def collect_in(
    api: Api,
    pod: PodView,
    container: str,
    output: Path,
    deadline: Deadline,
    *,
    stopped: bool,
    options: Sequence[str] = (),
    program: Sequence[str] = PROGRAM,
) -> Taken:
    """Runs `rankmuster collect` in a container, into the file `output` here, which ends in `.tar.zst`.

    Whatever goes wrong is in the note; nothing is left of half an archive.
    """
    own = max(deadline.remaining() - CLOSE_SECONDS - SEND_SECONDS, LEAST_SECONDS)
    wish = ["--stop-confirmed"] if stopped else []
    command = [*program, "collect", *wish, "--deadline", f"{own:.2f}", *options]
    beside = output.with_name(f".{output.name}.part")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            writer = BundleWriter(file)
            try:
                ran = api.execute(
                    pod.name,
                    pod.namespace,
                    container,
                    ["sh", "-c", FETCH, EVIDENCE_FOLDER, *command],
                    deadline,
                    most_bytes=MOST_BYTES,
                    write=writer,
                )
            except NoBundle as error:
                return Taken(None, f"{in_container(pod, container)}: {error}")
            except KubeError as error:
                return Taken(None, f"{in_container(pod, container)}: {denied(error, EXEC_RIGHT)}", error.late)
            file.flush()
            os.fsync(file.fileno())
        if writer.size == 0 or ran.status is None:
            why = how_it_ended(ran)
            return Taken(None, f"{in_container(pod, container)}: there is no bundle ({why})", ran.status is None)
        os.replace(beside, output)
    except OSError as error:
        return Taken(None, f"{in_container(pod, container)}: {output} cannot be written ({error.strerror})")
    finally:
        beside.unlink(missing_ok=True)
    if ran.status in (0, 4):
        return Taken(output)
    if ran.status == 2:
        note = "no process of an instance was found; the node's own evidence is saved"
        return Taken(output, f"{in_container(pod, container)}: {note}")
    return Taken(output, f"{in_container(pod, container)}: {how_it_ended(ran)}")


class NoBundle(Exception):
    """What a command printed is no bundle, or more than one may be; the message says what it is."""


class BundleWriter:
    """Takes the pieces of standard output. Raises NoBundle, which lets the call end."""

    def __init__(self, file: IO[bytes], most: int = MOST_BYTES) -> None:
        self._file, self._most, self.size, self._head = file, most, 0, b""

    def __call__(self, data: bytes) -> None:
        if len(self._head) < len(ZSTD):
            self._head += data[: len(ZSTD) - len(self._head)]
            if not ZSTD.startswith(self._head[: len(ZSTD)]):
                shown = plain(scrub_words(data[:80].decode("utf-8", "replace")), 80)
                raise NoBundle(f"what came is no bundle: it begins with {shown!r}")
        self.size += len(data)
        if self.size > self._most:
            raise NoBundle(f"its bundle has more than {self._most >> 20} MiB")
        try:
            self._file.write(data)
        except OSError as error:
            raise NoBundle(f"its bundle cannot be written here ({error.strerror})") from error


def where(pod: PodView) -> str:
    """A pod in words."""
    return f"pod {pod.namespace}/{pod.name}"


def in_container(pod: PodView, container: str) -> str:
    return f"{where(pod)}, container {container}"


def how_it_ended(ran: Ran) -> str:
    """Of a command: its last words, inert and without secrets; its status where it said nothing."""
    lines = [line for line in scrub_words(ran.errors[-8192:]).splitlines() if line.strip()]
    if lines:
        return plain(lines[-1].removeprefix("rankmuster: "), 300)
    return "it did not come to its end" if ran.status is None else f"exit status {ran.status}"


def denied(error: KubeError, verb: str) -> str:
    """The error's own words, with the verb that would help where a right is missing."""
    text = plain(scrub_words(str(error)), 400)
    return f"{text} (a role that may {verb} is needed)" if isinstance(error, Forbidden) else text
