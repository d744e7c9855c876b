"""Who wrote a log line, and when: the prefixes that torch, engines and launchers put before their messages.

Prefixes nest (`(RayWorkerWrapper pid=7, ip=10.0.0.3) [rank9]:[E1129 21:08:13.15 f.cpp:9] [PG ID 4 PG GUID 45 Rank 1]`),
so they are peeled one by one. Shapes: captured torch 2.11 logs; log formats of vLLM 0.6-0.33, SGLang 0.4-0.5,
TensorRT-LLM and TGI 3; public issue reports for older torch, torchrun, Ray and Slurm. Two traps: torch writes the month
without a leading zero (`[E325 ...` is 25 March), and the rank of `[Rank 1]` and `[PG ... Rank 1]` counts within the
group while that of `[rank9]:` is the global one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from rankmuster.evidence import times
from rankmuster.model.stamp import Stamp

MAX_LAYERS = 8
"""Prefixes peeled from one line: the deepest seen is 6 (kubectl, Ray, vLLM, rank, glog, group)."""
MAX_DIGITS = 18
"""Longest integer believed: anything in these logs fits 64 bits, and int() refuses thousands of digits."""
MAX_PREFIX = 400
"""Characters in which prefixes are looked for; the longest seen takes about 150."""


def whole(digits: str | None) -> int | None:
    """The integer, or None for no text and for what cannot be a count, a rank or a pid."""
    if digits is None or not 0 < len(digits) <= MAX_DIGITS:
        return None
    try:
        return int(digits)
    except ValueError:
        return None


def decimal(digits: str | None) -> float | None:
    """The number, or None for no text and for what is none."""
    try:
        return float(digits) if digits else None
    except ValueError:
        return None


def signed(digits: str | None) -> int | None:
    """Like `whole`, with a sign: exit codes, and torch's -1 for "none yet"."""
    if digits is None:
        return None
    number = whole(digits.removeprefix("-"))
    return -number if number is not None and digits.startswith("-") else number


@dataclass(frozen=True, slots=True)
class Prefix:
    """What the prefixes of one line say. `message`: the rest. `level`: one letter of D I W E F, or None."""

    message: str
    rank: int | None = None
    group_rank: int | None = None
    group: str | None = None
    group_desc: str | None = None
    pid: int | None = None
    worker: str | None = None
    host: str | None = None
    stamp: Stamp | None = None
    level: str | None = None
    engine: str | None = None

    @property
    def bare(self) -> bool:
        """Whether nothing in the line says who wrote it."""
        return self.rank is None and self.worker is None and self.pid is None and self.stamp is None

    @property
    def default_group(self) -> bool:
        """Whether the group named is the default one, in which group ranks are global ranks."""
        return self.group_desc == "default_pg" or (self.group == "0" and self.group_desc is None)


_LEVELS = {name: name[0] for name in ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "FATAL", "D", "I", "W", "E", "F")}
_LEVELS |= {"CRITICAL": "F", "TRACE": "D", "VERBOSE": "D", "V": "D"}
_PARTS = r"(?:DP|PP|PCP|DCP|ATTN_CP|MOE_DP|TP|EP|CP)\d{1,5}"
_PART = re.compile(r"(DP|PCP|PP|TP)(\d{1,5})")


def rank_of_worker(worker: str) -> int | None:
    """Global rank where a worker's name determines it: `VllmWorker-3`, `Worker_TP3`, `Worker_PP1`, `DP4 TP4` of SGLang.

    With both pipeline and tensor parts the sizes would be needed (rank = pp * tp_size + tp): None. vLLM's DP replicas
    count anew: None. SGLang's tensor rank spans its data-parallel attention ranks.
    """
    numbered = re.fullmatch(r"(?:VllmWorker|VllmWorkerProcess)-(\d{1,6})", worker)
    if numbered:
        return int(numbered.group(1))
    parts = dict(_PART.findall(worker))
    if "PCP" in parts or ("DP" in parts and "Worker" in worker):
        return None
    if "TP" in parts and "PP" in parts:
        return None
    only = parts.get("TP") or parts.get("PP")
    return int(only) if only is not None else None


_Peel = Callable[["re.Match[str]", Prefix], Prefix]


def _timed(shape: Callable[[str], Stamp | None]) -> Callable[[str, Prefix], Stamp | None]:
    def stamp(written: str, so_far: Prefix) -> Stamp | None:
        # The inner stamp is the writer's own; an outer one is when a collector passed the line on.
        return shape(written) or so_far.stamp

    return stamp


_GLOG_STAMP, _ISO_STAMP, _US_STAMP, _MD_STAMP = (_timed(s) for s in (times.glog, times.iso, times.us, times.month_day))


def _rank(m: re.Match[str], p: Prefix) -> Prefix:
    return replace(p, rank=whole(m["rank"]) if p.rank is None else p.rank)


def _global_rank(m: re.Match[str], p: Prefix) -> Prefix:
    return replace(p, rank=whole(m["rank"]))


def _process(m: re.Match[str], p: Prefix) -> Prefix:
    worker = m["worker"] or p.worker
    rank = whole(m["rank"])
    if rank is None and worker is not None:
        rank = rank_of_worker(worker)
    engine = "vllm" if worker is not None and _VLLM_WORKER.match(worker) else p.engine
    return replace(
        p,
        worker=worker,
        rank=p.rank if rank is None else rank,
        pid=p.pid if m["pid"] is None else whole(m["pid"]),
        host=m["ip"] or p.host,
        engine=engine,
    )


def _glog(m: re.Match[str], p: Prefix) -> Prefix:
    day = m["day"]
    written = f"{m['level']}{day if len(day) == 4 else '0' + day} {m['clock']}"
    pid = whole(m["pid"]) if "pid" in m.groupdict() and m["pid"] and len(m["pid"]) < 9 else None
    return replace(p, level=m["level"], stamp=_GLOG_STAMP(written, p), pid=p.pid if pid is None else pid)


def _levelled(m: re.Match[str], p: Prefix) -> Prefix:
    return replace(p, level=_LEVELS.get(m["level"].upper(), p.level))


def _vllm(m: re.Match[str], p: Prefix) -> Prefix:
    return replace(p, level=_LEVELS[m["level"]], stamp=_MD_STAMP(" " + m["ts"], p), engine="vllm")


def _bracketed(m: re.Match[str], p: Prefix) -> Prefix:
    parts = (m["parts"] or "").strip()
    rank = rank_of_worker(parts) if parts else None
    return replace(
        p,
        stamp=_ISO_STAMP(m["ts"], p),
        worker=parts or p.worker,
        rank=p.rank if rank is None else rank,
        engine="sglang" if parts else p.engine,
        level=m["level"] or p.level,
    )


def _trtllm(m: re.Match[str], p: Prefix) -> Prefix:
    rank = whole(m["rank"])
    return replace(
        p,
        stamp=_US_STAMP(m["ts"], p) if m["ts"] else p.stamp,
        rank=p.rank if rank is None else rank,
        level=_LEVELS.get(m["level"].upper(), p.level),
        engine="tensorrt-llm",
    )


def _iso(m: re.Match[str], p: Prefix) -> Prefix:
    level = _LEVELS.get((m["level"] or "").upper(), p.level)
    engine = "tgi" if m["target"] and "text_generation" in m["target"] else p.engine
    return replace(p, stamp=_ISO_STAMP(m["ts"], p), level=level, engine=engine)


def _group(m: re.Match[str], p: Prefix) -> Prefix:
    group = m["guid"] if m["guid"] is not None else m["name"]
    return replace(p, group=group, group_desc=m["desc"], group_rank=whole(m["rank"]))


def _in_group(m: re.Match[str], p: Prefix) -> Prefix:
    return replace(p, group_rank=whole(m["rank"]) if p.group_rank is None else p.group_rank)


def _nothing(_: re.Match[str], p: Prefix) -> Prefix:
    return p


_VLLM_WORKER = re.compile(r"(?:Vllm)?Worker(?:_|-|Process|$)|EngineCore|APIServer|ApiServer|DPCoordinator")
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE)"
_BY_FIRST: dict[str, list[tuple[re.Pattern[str], _Peel]]] = {}


def _shape(first: str, pattern: str, peel: _Peel) -> None:
    """`first`: the characters that a prefix of this shape may begin with, so that most shapes cost nothing."""
    compiled = re.compile(pattern)
    for character in first:
        _BY_FIRST.setdefault(character, []).append((compiled, peel))


_DIGITS = "0123456789"
_shape("[", r"\[rank(?P<rank>\d{1,9})\]: ?", _global_rank)
_shape("[", r"\[(?P<level>[IWEF])(?P<day>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) [^\]\s]{1,200}\] ?", _glog)
_shape("[", r"\[(?P<level>[IWEF]) [\w.\-]{1,80}:\d{1,6}\] ?", _levelled)
_shape(
    "[",
    r"\[PG (?:ID [^\s\]]{1,40} PG GUID (?P<guid>[^\s\](]{0,200})|(?P<name>[^\s\](]{1,200}))"
    r" ?(?:\((?P<desc>[^()\]]{0,200})\))? Rank (?P<rank>\d{1,9})\] ?",
    _group,
)
_shape("[", r"\[Rank (?P<rank>\d{1,9})\] ?", _in_group)
_shape(
    "[",
    r"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?: (?P<level>[IWEFD])(?: \d{1,9}){1,2})?"
    rf"(?P<parts>(?: {_PARTS}){{0,8}})\] ?",
    _bracketed,
)
_shape(
    "[",
    r"\[(?P<ts>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[(?:TRT-LLM|TensorRT-LLM)\] ?"
    r"(?:\[(?:MPI_Rank|RANK|Rank) (?P<rank>\d{1,9})\] ?)?\[(?P<level>[FEWIVD])\] ?",
    _trtllm,
)
_shape("[", r"\[TensorRT-LLM\]\[(?P<level>[A-Z]{1,8})\] ?(?P<ts>)(?P<rank>)", _trtllm)
_shape("[", r"\[1,(?P<rank>\d{1,9})\]<std(?:out|err)>: ?", _rank)
_shape("[", r"\[(?:default|[a-z_]{1,20})\d{1,6}\]: ?", _nothing)  # torchrun's role and *local* rank
_shape("[", r"\[\d{1,9}\] (?=\[rank)", _nothing)  # line numbers of paste tools
_shape("[", r"\[pod/[^\]\s]{1,200}\] ?", _nothing)
_shape("[", rf"\[{_LEVEL}\] ?", _levelled)
_shape(
    "(",
    r"\((?P<worker>[^\s()]{1,120}?)?(?: rank=(?P<rank>\d{1,9}))? ?pid=(?P<pid>\d{1,9})"
    r"(?:, ip=(?P<ip>[^\s()]{1,80}))?\) ?",
    _process,
)
_shape("(", r"\((?:raylet|autoscaler|gcs_server)(?:, ip=[^\s()]{1,80})?\) ?", _nothing)
_shape(
    "DIWEC",
    rf"{_LEVEL} (?P<ts>\d\d-\d\d \d\d:\d\d:\d\d) (?:\[[^\]\s]{{1,200}}:\d{{1,6}}\]|[^\]\s\[]{{1,200}}:\d{{1,6}}\]) ?",
    _vllm,
)
_shape(
    "IWEF",
    r"(?P<level>[IWEF])(?P<day>\d{4}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) (?P<pid>\d{1,20}) [^\]\s]{1,300}\] ?",
    _glog,
)
_shape("DIWECF", rf"{_LEVEL}:[\w.]{{1,120}}: ?", _levelled)
_shape("t", r"torch\.distributed(?:\.[a-z_]{1,40}){1,6}: ?", _nothing)  # Python loggers, not exceptions
_shape(
    _DIGITS,
    r"(?P<ts>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\s{1,3}(?:std(?:out|err) [FP] )?"
    rf"(?:{_LEVEL}\b\s{{1,3}})?"
    r"(?P<target>(?:[a-z_\-]{1,60}(?:\{[^{}]{0,120}\})?: )?text_generation\w{0,60}(?:::\w{1,60}){0,6}: )?",
    _iso,
)
_COMPOSE = re.compile(r"[a-zA-Z][\w.\-]{0,80} {1,40}\| (?=\S)")
_TGI_JSON = re.compile(r'\{"timestamp":"(?P<ts>[^"]{1,60})","level":"(?P<level>[A-Z]{1,8})"')
_TGI_MESSAGE = re.compile(r'"message":"((?:[^"\\]|\\.){0,4000})"')
_TGI_RANK = re.compile(r'(?:\brank=|"rank":)(\d{1,9})')


def peel(line: str) -> Prefix:
    """All prefixes of a cleaned line."""
    rest = line[:MAX_PREFIX]
    if rest.startswith('{"timestamp":"') and "text_generation" in line:
        return _tgi_json(line)
    done = 0
    found = Prefix("")
    composed = _COMPOSE.match(rest)
    if composed:
        done = composed.end()
    for _ in range(MAX_LAYERS):
        if done >= len(rest):
            break
        for pattern, take in _BY_FIRST.get(rest[done], ()):
            m = pattern.match(rest, done)
            if m is not None and m.end() > done:
                found = take(m, found)
                done = m.end()
                break
        else:
            break
    message = line[done:]
    if found.engine == "tgi" and found.rank is None:
        tail = _TGI_RANK.search(message[-200:])
        if tail:
            found = replace(found, rank=whole(tail.group(1)))
    return replace(found, message=message)


def _tgi_json(line: str) -> Prefix:
    head = _TGI_JSON.match(line)
    message = _TGI_MESSAGE.search(line)
    rank = _TGI_RANK.search(line)
    return Prefix(
        message.group(1).replace("\\n", "\n").replace('\\"', '"') if message else line,
        rank=whole(rank.group(1)) if rank else None,
        stamp=times.iso(head["ts"]) if head else None,
        level=_LEVELS.get(head["level"]) if head else None,
        engine="tgi",
    )
