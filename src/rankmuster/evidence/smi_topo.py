"""`nvidia-smi topo -m`, `-mp` and `-p2p`: the matrix of how each pair of GPUs and NICs is connected.

Tables come with tabs (as printed, the header underlined even in a pipe) or with blanks (as pasted), with or without
affinity columns, header and legend; several tables in one text give several matrices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.smi_text import prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.topology import TopologyMatrix

PEER_WORDS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
UNSAID_PEER_KIND = "p2p"
MAX_ENTITIES = 512
"""Rows and columns of one table; an NVL72 domain with its NICs has fewer than 200."""

_WORD = r"(?:X|SYS|NODE|PHB|PXB|PIX|SOC|C2C|NV\d{1,3}|OK|CNS|GNS|TNS|NS|DR|U|N/A|DIS)"
_LABEL = r"(?:GPU\d{1,4}|NIC\d{1,4}|(?:mlx|roce|ib|efa|bnxt|rdma|irdma|hfi|rxe)[\w.\-]{0,40})"
_CELL = re.compile(_WORD)
_ROW = re.compile(rf"^\s*({_LABEL})[ \t]+(?={_WORD}(?:\s|$))")
_HEADER = re.compile(r"^\s*GPU\d{1,4}\s*(?:(?:GPU|NIC|CPU|mlx|roce|ib|efa|bnxt|rdma|irdma|hfi|rxe)[\w. \-]|$)")
_TITLE = re.compile(r"GPU NUMA ID|CPU Affinity|NUMA Affinity|GPU\d{1,4}|NIC\d{1,4}|[A-Za-z][\w.\-]*")
_NIC_LEGEND = re.compile(r"^\s+(NIC\d{1,4}):\s+(\S{1,64})\s*$")
_COMMAND = re.compile(r"nvidia-smi\b.{0,40}\btopo\s+(?:-(mp|m)\b|--(matrix)\b|-p2p\s+([rwnap])\b)")
_FIRST_ROW = re.compile(rf"^[ \t]*GPU\d{{1,4}}(?:[ \t]+{_WORD}){{0,64}}[ \t]+X(?:[ \t\r\n]|$)", re.MULTILINE)
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


@dataclass(slots=True)
class _Table:
    host: str | None
    kind: str | None
    columns: list[str] = field(default_factory=list)
    affinity: list[str] = field(default_factory=list)
    headless: bool = False
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    nics: dict[str, str] = field(default_factory=dict)
    legend: bool = False
    legend_nv: bool = False


def _recognises(blob: Blob) -> bool:
    return _FIRST_ROW.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    matrices: list[TopologyMatrix] = []
    problems: list[Problem] = []
    table: _Table | None = None
    host, kind = names.host_of(blob.path), None
    known = 0

    def close() -> None:
        if table is not None and table.rows:
            matrices.append(_matrix(blob.path, table, problems))

    for _, line in lines(blob.data):
        command = _COMMAND.search(line)
        if command:
            close()
            table = None
            host = prompt_host(line) or host
            kind = command.group(1) or ("m" if command.group(2) else command.group(3))
            known += 1
        elif _HEADER.match(line):
            close()
            titles = _TITLE.findall(line)[:MAX_ENTITIES]
            columns = [t for t in titles if re.fullmatch(_LABEL, t)]
            table = _Table(host, kind, columns, [t for t in titles if t in _AFFINITY])
            known += 1
        elif row := _ROW.match(line):
            if table is None or len(table.rows) >= MAX_ENTITIES:
                close()
                table = _Table(host, kind, headless=True)
            table.rows.append((row.group(1), _cells(line[row.end(1) :])))
            known += 1
        elif table is not None:
            known += _legend(table, line)
    close()
    return Reading(tuple(matrices), tuple(problems), known)


def _legend(table: _Table, line: str) -> bool:
    nic = _NIC_LEGEND.match(line)
    if nic:
        if len(table.nics) < MAX_ENTITIES:
            table.nics[nic.group(1)] = nic.group(2)
        return True
    if line.startswith("Legend:"):
        table.legend = True
        return True
    if line.strip().startswith("NV#"):
        table.legend_nv = True
        return True
    return False


def _cells(rest: str) -> list[str]:
    """The cells behind a row's label; between tabs an empty cell keeps its place."""
    if "\t" in rest:
        cells = [c.strip() for c in rest.rstrip(" \r\n").lstrip(" ").removeprefix("\t").split("\t")]
        if not any(" " in c for c in cells):
            return cells[: 2 * MAX_ENTITIES]
    return rest.split()[: 2 * MAX_ENTITIES]


def _matrix(source: str, table: _Table, problems: list[Problem]) -> TopologyMatrix:
    labels = tuple(label for label, _ in table.rows)
    columns = tuple(table.columns)
    if table.headless:
        columns = _presumed_columns(table, labels)
        message = f"the topology table has lost its header; columns are presumed to be {', '.join(columns)}"
        problems.append(Problem(ProblemKind.DAMAGED, source, message))
    cells: dict[tuple[str, str], str] = {}
    cpus: dict[str, str] = {}
    numas: dict[str, str] = {}
    short: list[str] = []
    for label, words in table.rows:
        row = [w for w in words[: len(columns)] if _CELL.fullmatch(w)]
        cells.update(zip(((label, c) for c in columns), row, strict=False))
        if len(row) < len(columns):
            short.append(label)
            continue
        rest = words[len(columns) :]
        cpu, numa = _affinities(rest, table)
        if cpu:
            cpus[label] = cpu
        if numa:
            numas[label] = numa
    if short:
        message = f"rows {', '.join(short[:8])} of the topology table are cut or damaged; their first cells were used"
        problems.append(Problem(ProblemKind.DAMAGED, source, message))
    return TopologyMatrix(source, table.host, _kind(table, cells), labels, columns, cells, table.nics, cpus, numas)


def _affinities(rest: list[str], table: _Table) -> tuple[str | None, str | None]:
    """CPU and NUMA affinity behind the cells; without tabs a container's empty CPU cell leaves one word too few."""
    words = [w for w in rest if w]
    if not table.headless and "CPU Affinity" not in table.affinity:
        return None, None
    if len(rest) > len(words):  # tabs: places count
        padded = [*rest, "", ""]
        return padded[0] or None, padded[1] or None
    if len(table.affinity) == len(_AFFINITY) and len(words) == len(_AFFINITY) - 1:
        return None, words[0]
    return (words[0] if words else None), (words[1] if len(words) > 1 else None)


def _presumed_columns(table: _Table, labels: tuple[str, ...]) -> tuple[str, ...]:
    """nvidia-smi lists GPUs first, then NICs; the rows say which GPUs there are, the width how many NICs."""
    gpus = [label for label in dict.fromkeys(labels) if label.startswith("GPU")]
    first = next((i for i, word in enumerate(table.rows[0][1]) if word == "X"), 0)
    start = int(gpus[0][3:]) if gpus else 0
    if start == first:  # the table starts somewhere below its top: the diagonal tells how many GPUs stood above
        gpus = [f"GPU{i}" for i in range(start)] + gpus
    width = min((_leading_words(words) for _, words in table.rows), default=0)
    return (*gpus[:width], *(f"NIC{i}" for i in range(max(0, width - len(gpus)))))


def _leading_words(words: list[str]) -> int:
    count = 0
    for word in words:
        if not _CELL.fullmatch(word) or word == "N/A":
            break
        count += 1
    return count


def _kind(table: _Table, cells: dict[tuple[str, str], str]) -> str:
    if table.kind is not None:
        return table.kind
    if PEER_WORDS & set(cells.values()):
        return UNSAID_PEER_KIND
    return "mp" if table.legend and not table.legend_nv else "m"


READER = Reader("nvidia-smi-topo", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
