"""Which torch a process runs, read off its installation: the recorder's defaults have changed four times."""

from __future__ import annotations

import re
from pathlib import Path

from rankmuster.collect.files_below import names_in, read_below
from rankmuster.collect.target import ProcessOfInstance

Version = tuple[int, int]

MAX_MAPS_BYTES = 16 << 20
"""Of /proc/PID/maps; a worker with CUDA has one to three MB of it."""

_VERSION_FILE_BYTES = 4096
_LIBRARY = re.compile(rb"(/[^\n]*/torch)/lib/libtorch(?:_cpu|_python|_cuda)?\.so")
_SAID = re.compile(rb"__version__\s*(?::[^=\n]{0,40})?=\s*['\"](\d{1,4})\.(\d{1,4})")


def torch_version(proc: Path, process: ProcessOfInstance) -> Version | None:
    """(2, 11), or None when it cannot be told. Reading may hang with the process's memory map: call it with patience.

    From `torch/version.py` beside the library that the process has mapped; else beside its interpreter.
    """
    for folder in (*_mapped(proc, process.pid), *_beside_interpreter(process)):
        try:
            text = read_below(process.root, f"{folder}/version.py", _VERSION_FILE_BYTES)
        except OSError:
            continue
        said = _SAID.search(text)
        if said:
            return int(said.group(1)), int(said.group(2))
    return None


def _mapped(proc: Path, pid: int) -> tuple[str, ...]:
    try:
        with (proc / str(pid) / "maps").open("rb") as file:
            found = _LIBRARY.search(file.read(MAX_MAPS_BYTES))
    except OSError:
        return ()
    return (found.group(1).decode("utf-8", "surrogateescape"),) if found else ()


def _beside_interpreter(process: ProcessOfInstance) -> tuple[str, ...]:
    """`.../bin/python3` -> `.../lib/python3.*/site-packages/torch`."""
    if not process.command or "/bin/" not in process.command[0]:
        return ()
    library = process.command[0].rsplit("/bin/", 1)[0] + "/lib"
    try:
        names = names_in(process.root, library)
    except OSError:
        return ()
    return tuple(f"{library}/{name}/site-packages/torch" for name in names if name.startswith("python3"))
