"""NCCL's own XML: the topology that it detected and the graphs that it searched (NCCL src/graph/xml.cc).

Written with NCCL_TOPO_DUMP_FILE (`<system version="1">`) and NCCL_GRAPH_DUMP_FILE (`<graphs version="1">`). The file is
read as a stream of tags without building a tree, so that depth and size cost nothing, and a cut file still gives what
stood before the cut. A document type or an entity has no place in these files: one that has them is refused unread.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.model.nccllog import NcclTopology
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

MAX_DEPTH = 64
"""Levels of elements. NCCL nests system, cpu, a dozen PCI bridges, nic, net; the deepest real dumps have about 12."""

MEGABITS_PER_GIGABIT = 1000.0
"""`<net speed>` is in Mb/s."""

_ROOT = re.compile(
    r"^\s*(?:\ufeff)?(?:<\?xml[^>]{0,200}\?>\s*|<!--(?:(?!-->).){0,2000}-->\s*)*<(?:system|graphs)\s[^>]{0,200}",
    re.DOTALL,
)
_FORBIDDEN = re.compile(rb"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)


class _TooDeepError(Exception):
    """Raised inside the parser to leave a file that no NCCL wrote."""


def _int(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"-?[0-9]{1,9}", value) else None


def _float(value: str | None) -> float:
    return float(value) if value is not None and re.fullmatch(r"[0-9]{1,12}(?:\.[0-9]{1,12})?", value) else 0.0


@dataclass
class _Collector:
    """The target that the parser feeds: keeps what a diagnosis needs and forgets the rest."""

    gpus: list[tuple[int, str]] = field(default_factory=list)
    nvlinks: list[int] = field(default_factory=list)
    nets: list[tuple[str, float, bool]] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)
    _buses: list[str] = field(default_factory=list)
    _path: list[str] = field(default_factory=list)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._path.append(tag)
        if len(self._path) > MAX_DEPTH:
            raise _TooDeepError
        if tag == "pci":
            self._buses.append(attributes.get("busid", ""))
        elif tag == "gpu" and "channel" not in self._path:
            dev = _int(attributes.get("dev"))
            if dev is not None:
                self.gpus.append((dev, self._buses[-1] if self._buses else ""))
                self.nvlinks.append(0)
        elif tag == "nvlink" and "gpu" in self._path and self.nvlinks:
            self.nvlinks[-1] += _int(attributes.get("count")) or 0
        elif tag == "net" and "channel" not in self._path:
            speed = _float(attributes.get("speed")) / MEGABITS_PER_GIGABIT
            self.nets.append((attributes.get("name", ""), speed, attributes.get("gdr") == "1"))
        elif tag == "graph":
            self.graphs.append(f"{attributes.get('typeintra', '?')}/{attributes.get('typeinter', '?')}")

    def end(self, tag: str) -> None:
        if self._path:
            self._path.pop()
        if tag == "pci" and self._buses:
            self._buses.pop()

    def data(self, _: str) -> None:
        """Text between tags means nothing in these files."""

    def close(self) -> None:
        """The parser asks for a result; the lists are it."""


def _recognises(blob: Blob) -> bool:
    return (b"<system" in blob.data[:8192] or b"<graphs" in blob.data[:8192]) and bool(
        _ROOT.match(text.head(blob.data))
    )


def _read(blob: Blob) -> Reading:
    if _FORBIDDEN.search(blob.data):
        message = "holds a document type or entity, which no NCCL writes and which could be an attack; not read at all"
        return Reading(problems=(Problem(ProblemKind.REFUSED, blob.path, message),))
    collector = _Collector()
    # Fed as text, so that an encoding named in the file cannot smuggle in what was searched for above.
    parser = ET.XMLParser(target=collector)  # noqa: S314 - DTDs and entities, what this rule is about, were refused
    damage: str | None = None
    try:
        parser.feed(blob.data.decode("utf-8", errors="replace").lstrip("\ufeff \r\n\t"))
        parser.close()
    except ET.ParseError as error:
        damage = f"is not well-formed ({error})"
    except _TooDeepError:
        damage = f"nests deeper than {MAX_DEPTH} elements"
    except ValueError as error:
        damage = f"cannot be parsed ({error})"
    topology = NcclTopology(
        blob.path,
        tuple((dev, bus, links) for (dev, bus), links in zip(collector.gpus, collector.nvlinks, strict=True)),
        tuple(collector.nets),
        tuple(collector.graphs),
    )
    known = len(topology.gpus) + len(topology.nets) + len(topology.graphs)
    problems: tuple[Problem, ...] = ()
    if damage is not None:
        message = (
            f"NCCL XML {damage}; the {len(topology.gpus)} GPUs, {len(topology.nets)} nets and "
            f"{len(topology.graphs)} graphs before that were read"
        )
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading((topology,) if known else (), problems, known)


READER = Reader(
    name="nccl-topology", plane=Plane.TOPOLOGY, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
