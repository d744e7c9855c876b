"""What a process has loaded: whether NCCL is in it, and which version of its engine is installed where it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.find import titles

_PACKAGES = ("/site-packages/", "/dist-packages/")
_DISTRIBUTIONS = {
    titles.VLLM: "vllm",
    titles.SGLANG: "sglang",
    titles.TRTLLM: "tensorrt_llm",
    titles.TGI: "text_generation_server",
    titles.LMDEPLOY: "lmdeploy",
    titles.TORCH: "torch",
}
MAX_FOLDERS = 4
"""Package folders kept of one process: its environment's, the system's, a user's."""


@dataclass(frozen=True, slots=True)
class Libraries:
    """`nccl`: True when the library is mapped; None where torch was built with NCCL inside, which no name tells.

    `folders`: package folders as the process sees them.
    """

    nccl: bool | None
    folders: tuple[str, ...]


def libraries(mapped: Iterable[str]) -> Libraries:
    """Read from the names of mapped files; all of them, since NCCL's may stand last."""
    nccl, torch = False, False
    folders: dict[str, None] = {}
    for path in mapped:
        name = path[path.rfind("/") + 1 :]
        nccl = nccl or name.startswith("libnccl.so")
        torch = torch or name.startswith("libtorch_cuda")
        for mark in _PACKAGES:
            at = path.find(mark)
            if at >= 0 and len(folders) < MAX_FOLDERS:
                folders[path[: at + len(mark) - 1]] = None
    return Libraries(True if nccl else (None if torch else False), tuple(folders))


def version(root: Path, folders: Iterable[str], engine: str | None) -> str | None:
    """The engine's version from the name of its `dist-info`, below the process's own root."""
    distribution = _DISTRIBUTIONS.get(engine or "")
    if distribution is None:
        return None
    for folder in folders:
        try:
            listed = files_below.names_in(root, folder)
        except OSError:
            continue
        for name in listed:
            package, dash, rest = name.partition("-")
            if dash and rest.endswith(".dist-info") and package.lower().replace(".", "_") == distribution:
                return rest.removesuffix(".dist-info")[:60]
    return None
