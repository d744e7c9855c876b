"""Finds nccl-tests' programs, and proves that each is one, by running it: `-h` ends with 0, as does anything else."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.bench.bounded_process import run_bounded
from rankmuster.evidence.nccl_tests_end import failure
from rankmuster.evidence.nccl_tests_operation import PROGRAMS
from rankmuster.model.benchmark import Operation

HOME_VARIABLE = "NCCL_TESTS_HOME"

USUAL_FOLDERS = (
    "/opt/nccl-tests/build",
    "/opt/nccl-tests/bin",
    "/opt/nccl-tests",
    "/opt/nccl_tests/build",
    "/usr/local/nccl-tests/build",
    "/usr/local/nccl-tests/bin",
    "/usr/lib/nccl-tests",
    "/workspace/nccl-tests/build",
    "/nccl-tests/build",
)
"""Where images and administrators put them: NVIDIA's, AWS's and OCI's images and the READMEs of nccl-tests."""

PROOF_SECONDS = 20.0
"""For `-h`, which loads CUDA's libraries, from a network file system at worst."""

MOST_TRIED = 32
_OPTION = re.compile(r"\[?(-[A-Za-z]),--\w")
_FOUND_GPUS = re.compile(rb"Invalid number of GPUs: \d+ requested but only (\d{1,5}) were found")
_DEVICE = re.compile(r"nvidia\d{1,4}")


class NcclTestsMissing(Exception):
    """No usable nccl-tests; the message says where was looked, what came back, and what to do."""


@dataclass(frozen=True, slots=True)
class Binary:
    """One program. `options`: those that its own usage lists (`-J`, `-I`, `-T` are not in every version)."""

    operation: Operation
    path: Path
    options: frozenset[str]


def find(
    operations: Iterable[Operation],
    *,
    folder: Path | None,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
) -> dict[Operation, Binary]:
    """A proven program for each operation. `folder`: searched alone; otherwise NCCL_TESTS_HOME, PATH, usual folders.

    `environ`: where these variables are taken from; `environment`: what a program is run with.

    Raises NcclTestsMissing, for the first operation without one.
    """
    names = {operation: name for name, operation in PROGRAMS.items()}
    places = _folders(folder, environ)
    found: dict[Operation, Binary] = {}
    for operation in dict.fromkeys(operations):
        refused: list[str] = []
        for path in _candidates(names[operation], places)[:MOST_TRIED]:
            options, why = _prove(path, names[operation], environment)
            if options is not None:
                found[operation] = Binary(operation, path, options)
                break
            refused.append(f"{path} {why}")
        else:
            raise NcclTestsMissing(_missing(names[operation], places, refused, given=folder is not None))
    return found


def _folders(folder: Path | None, environ: Mapping[str, str]) -> list[Path]:
    if folder is not None:
        return [folder, folder / "build", folder / "bin"]
    home = environ.get(HOME_VARIABLE, "")
    of_home = [Path(home), Path(home, "build"), Path(home, "bin")] if home else []
    on_path = [Path(one) for one in environ.get("PATH", "").split(os.pathsep) if one]
    return [*of_home, *on_path, *map(Path, USUAL_FOLDERS)]


def _candidates(name: str, folders: Sequence[Path]) -> list[Path]:
    """Files of this name, of MPI builds too, that may be run; a program built without MPI before one with it."""
    paths = [folder / one for folder in folders for one in (name, f"{name}_mpi")]
    return [path for path in dict.fromkeys(paths) if path.is_file() and os.access(path, os.X_OK)]


def _prove(path: Path, name: str, environment: Mapping[str, str]) -> tuple[frozenset[str] | None, str]:
    """(the options that its usage lists, what is wrong with it)."""
    with tempfile.TemporaryDirectory(prefix="rankmuster-bench-") as scratch:
        ended = run_bounded(
            [str(path), "-h"],
            environment=environment,
            output=Path(scratch, "usage"),
            seconds=PROOF_SECONDS,
            folder=Path(scratch),
        )
    text = ended.output[:65_536].decode("utf-8", errors="replace")
    if "USAGE" in text and "--minbytes" in text:
        return frozenset(_OPTION.findall(text)), ""
    said = next((one.quote for line in text.splitlines() if (one := failure(line)) is not None), "")
    first = said or next((line.strip()[:120] for line in text.splitlines() if line.strip()), "")
    story = ended.story or f"printed no usage of {name}"
    return None, f"{story}" + (f" ({first})" if first else "")


def _missing(name: str, places: Sequence[Path], refused: Sequence[str], *, given: bool) -> str:
    if refused:
        return f"no usable {name}: {'; '.join(refused[:3])}"
    where = ", ".join(str(place) for place in places) if given else f"${HOME_VARIABLE}, PATH and {USUAL_FOLDERS[0]}"
    return f"{name} of nccl-tests was not found in {where}; name its folder with --nccl-tests, or set {HOME_VARIABLE}"


def count_gpus(binary: Binary, environment: Mapping[str, str], devices: Path = Path("/dev")) -> int:
    """GPUs that a program sees: as its CUDA counts them, which says so where more are asked for; else by /dev."""
    with tempfile.TemporaryDirectory(prefix="rankmuster-bench-") as scratch:
        ended = run_bounded(
            [str(binary.path), "-g", str(TOO_MANY_GPUS), "-b", "8", "-e", "8", "-n", "1", "-w", "0"],
            environment=environment,
            output=Path(scratch, "count"),
            seconds=PROOF_SECONDS,
            folder=Path(scratch),
        )
    said = _FOUND_GPUS.search(ended.output)
    if said is not None:
        return int(said[1])
    try:
        return sum(_DEVICE.fullmatch(name) is not None for name in os.listdir(devices))
    except OSError:
        return 0


TOO_MANY_GPUS = 1000
"""More than a node has: the program then says how many there are, and measures nothing."""
