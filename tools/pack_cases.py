"""Packs case folders into tests/cases, one small archive each: pack_cases.py [--replace OLD=NEW]... SOURCE...

The archives are made the same way every time (sorted members, no owners, no times). A SOURCE holds
NAME/input and NAME/truth.json. --replace puts neutral paths of the same length in place of the capturing machine's,
which keeps the pickles whole; a bundle of `rankmuster collect` gets the digests and the seal that fit then.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import pathlib
import tarfile

import zstandard

from rankmuster.collect.bundle.manifest import sealed_bytes

MANIFEST = "manifest.json"


def resealed(files: dict[str, bytes]) -> bytes:
    """The manifest for what the files are now."""
    document = json.loads(files[MANIFEST])
    for name, entry in document.get("files", {}).items():
        entry["sha256"] = hashlib.sha256(files[name]).hexdigest()
        entry["size"] = len(files[name])
    return sealed_bytes(document)


def packed(folder: pathlib.Path, neutral: dict[bytes, bytes]) -> bytes:
    """The folder as a .tar.zst."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            for old, new in neutral.items():
                data = data.replace(old, new)
            files[path.relative_to(folder).as_posix()] = data
    if neutral and MANIFEST in files:
        files[MANIFEST] = resealed(files)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
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
