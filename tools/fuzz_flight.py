"""Changed, cut and spliced dumps through all readers of pickles: whatever the native one takes, the pure ones see too.

With `--sanitize` the native reader is built with address and undefined-behaviour sanitizers into a folder of its own.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OPCODES = b"(]}).hjqrKMJGNXuesat\x80\x85\x86\x87\x88\x89\x8a\x8c\x8d\x94\x95"
HEAD = b"\x80\x02}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x07\x00\x00\x00entries]("
KEYS = (
    "frames", "record_id", "pg_id", "process_group", "pg_name", "collective_seq_id", "p2p_seq_id", "op_id",
    "profiling_name", "time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns", "duration_ms",
    "input_sizes", "output_sizes", "input_dtypes", "output_dtypes", "state", "retired", "timeout_ms", "is_p2p", "name",
    "filename", "line",
)  # fmt: skip


def build(folder: Path) -> Path:
    """The native reader with sanitizers."""
    target = folder / "_flight_scan.so"
    sources = sorted(map(str, (ROOT / "src/native").glob("*.c")))
    subprocess.run(
        ["cc", "-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fPIC",
         "-shared", "-DPy_LIMITED_API=0x030A0000", f"-I{sysconfig.get_paths()['include']}",
         *sources, "-o", str(target)],
        check=True,
    )  # fmt: skip
    return target


def again_with_sanitizer(library: Path) -> int:
    """This program, in a process in which the sanitizer stands before everything else."""
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "FUZZ_LIBRARY": str(library),
    }
    arguments = [argument for argument in sys.argv[1:] if argument != "--sanitize"]
    return subprocess.run([sys.executable, __file__, *arguments], env=environment, check=False).returncode


def use(library: str) -> None:
    """Takes the sanitized build in place of the installed one."""
    from rankmuster.evidence import flight_native

    name = "rankmuster.evidence._flight_scan"
    loader = ExtensionFileLoader(name, library)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    flight_native._scan = module.scan


def value(chance: random.Random, depth: int = 0) -> Any:
    """Plain data of the kinds that stand in dumps, and of others."""
    kind = chance.randrange(14 if depth < 3 else 9)
    if kind == 0:
        return chance.choice([None, True, False, 1.5, -2.0, float("nan"), float("inf"), 1e300, 2**63, -(2**63), 2**70])
    if kind < 3:
        return chance.randrange(-(2 ** chance.randrange(1, 66)), 2 ** chance.randrange(1, 66))
    if kind < 9:
        return chance.choice(
            [*KEYS, "nccl:all_reduce", "Float", "0", "12", "-7", "1234567890", "", "é", "x" * 600, "٣"]
        )
    if kind == 9:
        return {chance.choice(KEYS): value(chance, depth + 1) for _ in range(chance.randrange(5))}
    made = [value(chance, depth + 1) for _ in range(chance.randrange(5))]
    return tuple(made) if kind == 10 else made


def entry(chance: random.Random, shared: list[Any]) -> dict[str, Any]:
    """An entry, mostly as torch has it; some values are shared between entries."""
    made: dict[str, Any] = {}
    for key in KEYS[:-3]:
        roll = chance.random()
        if roll < 0.1:
            made[key] = value(chance)
        elif roll < 0.2:
            made[key] = chance.choice(shared)
        elif key == "frames":
            made[key] = chance.choices(shared, k=chance.randrange(4))
        elif key.endswith("sizes"):
            made[key] = [
                [chance.randrange(70_000) for _ in range(chance.randrange(3))] for _ in range(chance.randrange(3))
            ]
        elif key.endswith("dtypes"):
            made[key] = chance.choices(["Float", "Half", "é"], k=chance.randrange(3))
        elif key == "process_group":
            made[key] = chance.choice([("0", "default_pg"), ("1", "TP"), ["2", "PP"], ("3",)])
        elif key in ("retired", "is_p2p"):
            made[key] = chance.random() < 0.5
        elif key == "state":
            made[key] = chance.choice(["scheduled", "started", "completed", "odd"])
        elif key == "duration_ms":
            made[key] = chance.random()
        elif key in ("profiling_name", "pg_name"):
            made[key] = chance.choice(["nccl:all_reduce", "nccl:send 0->1", "x" * 600])
        else:
            made[key] = chance.randrange(2 ** chance.randrange(1, 63))
    return made


def written(chance: random.Random) -> bytes:
    """A dump that Python's own pickler wrote."""
    shared = [value(chance) for _ in range(3)] + [
        {"name": f"f{number}", "filename": "a.py", "line": number} for number in range(4)
    ]
    top = {
        "version": "2.10",
        "pg_config": value(chance) if chance.random() < 0.3 else {"0": {"name": "0", "desc": "d", "ranks": "[0, 1]"}},
        "pg_status": value(chance) if chance.random() < 0.3 else {"0": {"last_enqueued_collective": 3}},
        "entries": [entry(chance, shared) for _ in range(chance.randrange(1, 12))],
    }
    return pickle.dumps(top, chance.randrange(2, 6))


def changed(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """A few of: a byte changed, an opcode put in, a piece left out, repeated or taken from another dump, an end."""
    made = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        at = chance.randrange(len(made)) if made else 0
        length = chance.randrange(1, 40)
        kind = chance.randrange(7)
        if kind == 0 and made:
            made[at] = chance.randrange(256)
        elif kind == 1 and made:
            made[at] = chance.choice(OPCODES)
        elif kind == 2:
            made[at:at] = bytes([chance.choice(OPCODES)])
        elif kind == 3:
            del made[at : at + length]
        elif kind == 4:
            made[at:at] = made[at : at + length]
        elif kind == 5:
            start = chance.randrange(len(other))
            made[at : at + length] = other[start : start + length]
        elif chance.random() < 0.3:
            del made[at:]
    return bytes(made)


def as_torch(chance: random.Random) -> bytes:
    """A dump in torch's own layout, of entries of which most are like the one before."""
    from torch_pickler import Frame, TorchPickler

    frames = [Frame(f"f{number}", chance.choice(["a.py", "b.py"]), number) for number in range(6)]
    stacks = [chance.choices(frames, k=chance.randrange(5)) for _ in range(3)]
    kinds = [entry(chance, [None, 7, "x"]) for _ in range(chance.randrange(1, 4))]
    entries = []
    for number in range(chance.randrange(60)):
        made = {**chance.choice(kinds), "frames": chance.choice(stacks), "record_id": number}
        made["collective_seq_id"] = chance.randrange(2 ** chance.randrange(1, 40))
        if chance.random() < 0.3:
            made.pop("duration_ms")
        if chance.random() < 0.05:
            made.update(entry(chance, ["new" * number, 3]), frames=[])
        entries.append({key: value for key, value in made.items() if plain(value)})
    return TorchPickler().dumps({"version": "2.10", "pg_config": {}, "entries": entries})


def plain(made: Any) -> bool:
    """Whether torch's pickler can write it."""
    if isinstance(made, (list, tuple)):
        return all(map(plain, made)) and (isinstance(made, list) or len(made) in (1, 2, 3))
    if isinstance(made, dict):
        return all(map(plain, made.values()))
    return not isinstance(made, int) or -(2**63) <= made < 2**63


def soup(chance: random.Random) -> bytes:
    """Opcodes without sense behind an honest head."""
    body = bytearray()
    for _ in range(chance.randrange(60)):
        op = chance.choice(OPCODES)
        body.append(op)
        if op in b"hqK\x8a\x80":
            body.append(chance.randrange(6))
        elif op in b"X\x8c":
            key = chance.choice(KEYS).encode()
            body += (len(key).to_bytes(4, "little") if op == 0x58 else bytes([len(key)])) + key
    return HEAD * (chance.random() < 0.7) + bytes(body) + b"eu." * (chance.random() < 0.7)


def differences(data: bytes) -> str | None:
    """In what the readers differ over `data`; None: in nothing."""
    from flight_readers import read

    try:
        read(data)
    except AssertionError as difference:
        return str(difference)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("dumps", nargs="*", type=Path, help="dumps to change; without any, those of tests/evidence")
    given = parser.parse_args()
    if given.sanitize:
        with tempfile.TemporaryDirectory() as folder:
            return again_with_sanitizer(build(Path(folder)))
    if "FUZZ_LIBRARY" in os.environ:
        use(os.environ["FUZZ_LIBRARY"])
    from rankmuster.evidence import flight_native

    if not flight_native.active():
        print("the native reader is not built; nothing to compare")
        return 1
    sys.path.insert(0, str(ROOT / "tests/evidence"))
    from flight_sample import PICKLE

    chance = random.Random(given.seed)
    real = [path.read_bytes() for path in given.dumps] or [PICKLE]
    tried = native = 0
    end = time.monotonic() + given.seconds
    while time.monotonic() < end:
        base = chance.choice([written, as_torch])(chance) if chance.random() < 0.8 else chance.choice(real)
        data = soup(chance) if chance.random() < 0.3 else changed(chance, base, chance.choice(real))
        found = differences(data)
        tried += 1
        native += flight_native.scan(data) is not None
        if found is not None:
            kept = Path(tempfile.gettempdir()) / f"fuzz-flight-{given.seed}-{tried}"
            kept.write_bytes(data)
            print(f"\nthe readers differ over {kept}: {found}")
            return 1
    print(f"{tried} tried, {native} of them read by the native reader: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
