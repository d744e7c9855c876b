"""Packs case folders into tests/cases, one small archive each: pack_cases.py [--replace OLD=NEW]... SOURCE...

The archives are made the same way every time (sorted members, no owners, no times). A SOURCE holds
NAME/input and NAME/truth.json. --replace puts neutral paths of the same length in place of the capturing machine's,
which keeps the pickles whole.
"""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import tarfile

import zstandard


def packed(folder: pathlib.Path, neutral: dict[bytes, bytes]) -> bytes:
    """The folder as a .tar.zst."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_file():
                continue
            data = path.read_bytes()
            for old, new in neutral.items():
                data = data.replace(old, new)
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    return zstandard.ZstdCompressor(level=19).compress(plain.getvalue())


def main() -> None:
    target = pathlib.Path(__file__).parent.parent / "tests" / "cases"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replace", action="append", default=[])
    parser.add_argument("source", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    neutral = {}
    for pair in arguments.replace:
        old, new = pair.encode().split(b"=", 1)
        if len(old) != len(new):
            parser.error(f"{pair}: {len(old)} and {len(new)} bytes, they must be as long as each other")
        neutral[old] = new
    for source in arguments.source:
        for case in sorted(path.parent for path in source.glob("*/truth.json")):
            out = target / case.name
            out.mkdir(parents=True, exist_ok=True)
            (out / "input.tar.zst").write_bytes(packed(case / "input", neutral))
            truth = json.loads((case / "truth.json").read_text())
            (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
            print(f"{case.name}: {(out / 'input.tar.zst').stat().st_size} bytes")


main()
