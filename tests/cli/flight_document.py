"""What the tests of docs/flight-at-scale.md share: its blocks, and a captured case to run them on."""

from __future__ import annotations

import os
import re
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import zstandard

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "flight-at-scale.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
CASE = ROOT / "tests" / "cases" / "rank-stops-calling" / "input.tar.zst"


def dumps_in(folder: Path) -> Path:
    """The dumps of a captured case: four ranks, rank 2 stopped calling."""
    folder.mkdir()
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(CASE.read_bytes())
    with tarfile.open(fileobj=BytesIO(plain)) as archive:
        for member in archive:
            if member.isfile() and "flight/" in member.name:
                data = archive.extractfile(member)
                assert data is not None
                (folder / Path(member.name).name).write_bytes(data.read())
    assert len(list(folder.iterdir())) == 4
    return folder


def with_program(**more: str) -> dict[str, str]:
    """The environment in which `rankmuster` is the one that is tested."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, **more, "PATH": f"{folder}:{os.environ['PATH']}"}
