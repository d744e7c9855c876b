"""What Python packages an interpreter, or a running process, has: by the names of their folders, importing nothing.

To import torch takes seconds, and may touch the GPUs that a job computes on. `torch-2.9.0+cu128.dist-info` says enough.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from rankmuster.collect.bounded import within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import run
from rankmuster.collect.node.sys_files import names
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.model.unknown import Unknown

PYTHON_SECONDS = 5.0
"""For an interpreter to say where its packages are; 0.05 s when it lies on a local disk."""

MAPS_SECONDS = 2.0
MAX_ENTRIES = 20_000
"""Of one folder of packages; an engine's image has some 400."""
MAX_FOLDERS = 32

_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9_.]+?)-(?P<version>\d[^-/]*?)(?:-py\d[\d.]*)?\.(?:dist|egg)-info")
_SITE = re.compile(r"^(.{1,400}?/(?:site|dist)-packages)/")
_ASK = "import json, sys; print(json.dumps([p for p in sys.path if p]))"


def of_this_program() -> dict[str, str]:
    """Packages of the interpreter that runs this."""
    return packages_in(Path(place) for place in sys.path if place)


def of_python(python: Path, deadline: Deadline) -> dict[str, str] | Unknown:
    """Packages of another interpreter, which is started once to say where it looks."""
    ran = run((str(python), "-c", _ASK), deadline.within(PYTHON_SECONDS))
    if not ran.well:
        return Unknown(f"{python} was asked where its packages are and {ran.story}")
    try:
        places = json.loads(ran.output.decode("utf-8", errors="replace").strip().splitlines()[-1])
    except (ValueError, IndexError):
        return Unknown(f"{python} was asked where its packages are and did not answer as a Python does")
    return packages_in(Path(place) for place in places if isinstance(place, str))


def of_process(proc: Path, pid: int, deadline: Deadline) -> dict[str, str] | Unknown:
    """Packages in the folders of which the process has a library mapped, as it sees them."""
    try:
        sites = within(min(MAPS_SECONDS, deadline.remaining()), lambda: _sites(proc, pid))
    except NotAllowed as error:
        return Unknown(f"what process {pid} has mapped may not be read ({error}): run as its user, or as root")
    except Exception as error:  # gone, or its memory map is locked: both are answers
        return Unknown(f"what process {pid} has mapped cannot be read ({error})")
    if not sites:
        return Unknown(f"process {pid} has no library of a Python package mapped (or it has ended)")
    root = proc / str(pid) / "root"
    return packages_in(root / site.lstrip("/") for site in sites)


def _sites(proc: Path, pid: int) -> list[str]:
    found: dict[str, None] = {}
    for path in Proc(proc).mapped_files(pid):
        match = _SITE.match(path)
        if match and len(found) < MAX_FOLDERS:
            found[match.group(1)] = None
    return list(found)


def packages_in(folders: Iterable[Path]) -> dict[str, str]:
    """Normalised name ("nvidia-nccl-cu12") -> version; of a package found twice the first counts, as in an import."""
    found: dict[str, str] = {}
    for folder in folders:
        for entry in names(folder, MAX_ENTRIES):
            match = _PACKAGE.fullmatch(entry)
            if match:
                found.setdefault(normal(match.group("name")), match.group("version"))
    return found


def normal(name: str) -> str:
    """As the Python packaging authority normalises names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def versions_of(packages: Mapping[str, str], prefix: str) -> list[tuple[str, str]]:
    """(name, version) of the packages whose name is `prefix`, or that with CUDA's version behind it."""
    wanted = re.compile(rf"{re.escape(prefix)}(?:-cu\d{{2,3}})?")
    return sorted((name, version) for name, version in packages.items() if wanted.fullmatch(name))
