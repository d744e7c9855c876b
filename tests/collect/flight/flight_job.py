"""Builds what the flight collectors look at: dumps with chosen times, processes that answer a pipe, the instance."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight.files import DumpFiles
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Outcome
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes
from rankmuster.model.fault import Progress

_REAL = zlib.decompress(
    base64.b64decode(
        "eNp1k1lu1EAQhj3j7Pu+EyAbhqBoMqBE4YknhGJpnltCxnLsnqkWHtvlbgcFEQleosANOACH4A4cgEPwwgmguj1OIArzMrV2ff13+UP93GGDlm"
        "Wd8lyKNEGL9ZHX3NtvYI0Nk5l1/DBN2qKDupQCFtpk6Kok6HLsA9s4EZch9pPTT04eJG8kDjCb7FcNDweLgk2RHabdrh+LE78aN0QNvSlSBaqQ"
        "OEyH1yjSwBGylsiKA6l8nmDBCx4RTBzzUIlTjqOuzRarAmrP1b/5sePf9GPLVQlNz2J+o2jctQlOS8ATlQsuccJzaLKmynmY5pEvIpx0LXMx4i"
        "Rvirxx7eVpyKX0O3laZDgNI2zEKNEOilj5WQdnLtgoRRTkPIh8o9csG9CdZwro+nNmTC9NB8+zSfL3nzb2m42jw+aTw4OjgwYusGmjXcXsS466"
        "etGtmYFZM6tCSz3ONNPeMhVMlJxtEYukUyKsmCmdOE2fBXHs5zwqQo6rJqpEl/sh8WiZEolrn4dq39//eP3155K5ikiygsQW70ioO57jOe4U52"
        "zsKhOps4xS655jOF7EaaDwblmRFuq6+d5V8/h1qtd933OAevQBeis4bhidZAiEGvMIN9lKxRoJGaa0ToRbrQBhb7XY2i0V1xtANdst8+w5V4Jy"
        "uHNpxNQtRON3JT44fv521TLvJaRPKqPzqTh3YNKtAa0A0IPDzAXMwhzMwwIsunUg/WGZ/m9I3AkU8BwfAsn5xfto5IRSvj7OYd3cF0pJaiZUSg"
        "AbsAlbLdhuwc4llDxQQdRvh7B7EDZBTFQQJ3kaRCF9BPhIM6z8+vY3g+3WSwrzJb8M4jbuVjhlTuPs/heHF/h47w8fY0S7"
    )
)
"""A dump of torch 2.13 (gloo, three collectives)."""

STOPPED = Assessment(Progress.STOPPED, None, True, False, "nothing has moved for a minute")
HEALTHY = Assessment(Progress.ADVANCING, None, False, True, "31 tokens were made between two looks.")
UNKNOWN = Assessment(Progress.UNKNOWN, None, False, False, "little could be seen")


def dump(stamp: float) -> bytes:
    """A real pickle whose entries were enqueued at `stamp` (unix seconds) and just after."""
    data, place = _REAL, 0
    for number in range(3):
        place = data.index(b"\x8a\x08", place) + 2
        data = data[:place] + struct.pack("<q", int(stamp * 1e9) + number) + data[place + 8 :]
    return data


def json_dump(stamp: float, groups: Mapping[str, str]) -> bytes:
    """The JSON form; `groups`: name -> members as torch writes them."""
    entry = {"record_id": 0, "pg_id": 0, "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "state": "scheduled"}
    entry |= {"profiling_name": "nccl:all_reduce", "time_created_ns": int(stamp * 1e9), "retired": False}
    entries = [{**entry, "record_id": n, "process_group": [name, "d"]} for n, name in enumerate(groups)]
    config = {name: {"name": name, "desc": "d", "ranks": members} for name, members in groups.items()}
    return json.dumps({"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}).encode()


@dataclass
class Job:
    """One node's instance below `root`, where dumps go to /dumps/trace_<rank> and pipes to /pipes/ask_<rank>.pipe."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)
    started_at: float = field(default_factory=time.time)
    world_size: int | None = None

    def __post_init__(self) -> None:
        (self.root / "dumps").mkdir(parents=True)
        (self.root / "pipes").mkdir()
        self.environ = {
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/dumps/trace_",
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/pipes/ask_",
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
            **self.environ,
        }
        self.processes: list[ProcessOfInstance] = []

    def file(self, rank: int) -> Path:
        return self.root / "dumps" / f"trace_{rank}"

    def pipe(self, rank: int) -> Path:
        return self.root / "pipes" / f"ask_{rank}.pipe"

    def asked(self, rank: int) -> bool:
        return self.file(rank).with_name(f"trace_{rank}.asked").exists()

    def add(self, pid: int, rank: int | None, **fields: object) -> ProcessOfInstance:
        """A worker of this job."""
        values: dict[str, object] = {
            "pid": pid,
            "inner_pid": pid,
            "host_pid": pid,
            "start_ticks": ticks(pid),
            "started_at": self.started_at,
            "role": Role.WORKER,
            "name": "python",
            "rank": rank,
            "uid": os.getuid(),
            "root": self.root,
            "cwd": Path("/"),
            "environ": self.environ,
            **fields,
        }
        process = ProcessOfInstance(**values)  # type: ignore[arg-type]
        self.processes.append(process)
        return process

    @contextmanager
    def torch(self, modes: Mapping[int, str], **fields: object) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
        """Fake torch processes, one a rank, ready to be asked."""
        children: dict[int, subprocess.Popen[bytes]] = {}
        script = Path(__file__).with_name("fake_torch.py")
        try:
            for rank, mode in modes.items():
                source = self.root / f"source_{rank}"
                if not source.exists():
                    source.write_bytes(dump(time.time()))
                words = [mode, str(self.file(rank)), str(source), str(self.pipe(rank))]
                children[rank] = subprocess.Popen([sys.executable, str(script), *words], stdout=subprocess.PIPE)
            for rank, child in children.items():
                assert child.stdout is not None
                assert child.stdout.readline() == b"ready\n"
                self.add(child.pid, **{"rank": rank, **fields})  # type: ignore[arg-type]
            yield children
        finally:
            for child in children.values():
                child.kill()
                child.wait()
                if child.stdout is not None:
                    child.stdout.close()

    def scene(self, wishes: Wishes | None = None, assessment: Assessment | None = STOPPED) -> Scene:
        """What a collector is given; the assessment is on the board already, unless it is None."""
        target = Target("llm-0", "a7", tuple(self.processes), world_size=self.world_size)
        scene = Scene(target, Machine(hostname="a7"), wishes or Wishes())
        if assessment is not None:
            scene.board.post_assessment(assessment)
        return scene

    def collect(
        self, store: Store, scene: Scene | None = None, *, seconds: float = 10.0
    ) -> tuple[Outcome, dict[str, bytes]]:
        """Runs `DumpFiles` and returns what it said and what it took."""
        scene = scene or self.scene()
        outcome = DumpFiles().collect(scene, store.sink("flight"), Deadline.after(seconds))
        assert scene.board.dumped(Deadline.after(0)), "RAS would wait for ever"
        return outcome, pieces(store)


def pieces(store: Store) -> dict[str, bytes]:
    """Path -> bytes of everything in the sink."""
    found = {piece.path: (store.folder / piece.path).read_bytes() for piece in store.pieces()}
    found.pop("flight/asked.json", None)  # who was asked when: see test_dump_requests
    return found


def ticks(pid: int) -> int:
    """Start time of a live process in clock ticks; 0 where there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except OSError:
        return 0
