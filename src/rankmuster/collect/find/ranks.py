"""Global and local ranks of processes, from their variables or from their titles. Pure.

Variables count only where they are the process's own: a child inherits its parent's rank without having one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.collect.find import titles
from rankmuster.collect.find.options import MAX_RANKS, Shape
from rankmuster.collect.find.titles import Known
from rankmuster.collect.target import Role


@dataclass(frozen=True, slots=True)
class Place:
    """A process's place in its job. `source`: what gave it: torch, mpi, pmi, slurm, title."""

    rank: int
    local_rank: int | None
    world: int | None
    source: str


_SOURCES = (
    # The innermost launcher stands first: torchrun within a Slurm step sets RANK, and that is the rank.
    ("torch", "RANK", "WORLD_SIZE", ("LOCAL_RANK",)),
    ("mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("pmi", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
    ("slurm", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_LOCALID",)),
)
_VLLM_ORDER = ("PP", "PCP", "TP")


def number(environ: Mapping[str, str], name: str) -> int | None:
    """A variable as a number that may be a rank or a size."""
    text = environ.get(name, "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        return None
    return int(text) if int(text) <= MAX_RANKS else None


def from_environ(environ: Mapping[str, str]) -> Place | None:
    """The place that a launcher has given; None without one, and for a rank that its world has no room for."""
    for source, rank_name, world_name, local_names in _SOURCES:
        rank, world = number(environ, rank_name), number(environ, world_name)
        if rank is None or world is None or rank >= world:
            continue
        if source == "slurm" and (world == 1 or not environ.get("SLURM_STEP_ID", "").isdigit()):
            continue  # the batch script itself, or `srun -n1`: it names no rank of the job's
        local = next((found for name in local_names if (found := number(environ, name)) is not None), None)
        return Place(rank, local, world, source)
    return None


def world(environ: Mapping[str, str]) -> int | None:
    """The number of ranks that the innermost launcher's variables say, whether or not the process has a rank."""
    for _, _, world_name, _ in _SOURCES[:-1]:  # a Slurm step's tasks need not be ranks
        size = number(environ, world_name)
        if size:
            return size
    return None


def from_title(known: Known, shape: Shape) -> Place | None:
    """The place of a vLLM worker or an SGLang scheduler, with the sizes of its server's command line."""
    if known.cut:
        return None
    if known.engine == titles.VLLM and known.name.partition("::")[2].startswith("Worker"):
        return _vllm(known.parts, shape)
    if known.engine == titles.SGLANG and known.name.startswith("sglang::scheduler"):
        return _sglang(known.parts, shape)
    return None


def from_single_part(known: Known) -> Place | None:
    """Where no sizes are known: a title with one part alone, whose other sizes are all 1, is its rank."""
    counted = {name: part for name, part in known.parts.items() if name in ("TP", "PP")}
    alone = len(counted) == 1 and not {"DP", "PCP", "ATTN_CP", "MOE_DP"} & known.parts.keys()
    if known.cut or known.role is not Role.WORKER or "::" not in known.name or not alone:
        return None
    (rank,) = counted.values()
    return Place(rank, None, None, "title")


def of_uniprocess(known: Known, shape: Shape) -> Place | None:
    """vLLM with one GPU a replica computes inside EngineCore: there the replica's number is the rank."""
    if known.engine == titles.VLLM and "EngineCore" in known.name and shape.replica == 1 and not known.cut:
        rank = known.parts.get("DP", 0)
        return Place(rank, rank - shape.dp_start, shape.world, "title") if rank < shape.world else None
    return None


def _vllm(parts: Mapping[str, int], shape: Shape) -> Place | None:
    """Layout of all ranks: data, pipeline, prefill context, tensor; the tensor rank moves fastest."""
    sizes = {"PP": shape.pp, "PCP": shape.pcp, "TP": shape.tp}
    within = 0
    for name in _VLLM_ORDER:
        index = parts.get(name, 0)
        if index >= sizes[name]:
            return None
        within = within * sizes[name] + index
    replica = parts.get("DP", shape.dp_rank or 0)
    rank = replica * shape.replica + within
    if rank >= shape.world:
        return None
    here = max(shape.replica // shape.nodes, 1)  # ranks of one replica on one node
    local = within % here + (replica - shape.dp_start if shape.dp_rank is None else 0) * here
    return Place(rank, max(local, 0), shape.world, "title")


def _sglang(parts: Mapping[str, int], shape: Shape) -> Place | None:
    tp, pp = parts.get("TP", 0), parts.get("PP", 0)
    if tp >= shape.tp or pp >= shape.pp:
        return None
    replica = 0 if shape.dp_attention else parts.get("DP", 0)
    rank = replica * shape.replica + pp * shape.tp + tp
    if rank >= shape.world:
        return None
    tp_here = max(shape.tp // max(shape.nodes // shape.pp, 1), 1)
    pp_here = max(shape.pp // shape.nodes, 1)
    device = shape.base_gpu + replica * shape.replica * shape.step
    device += (pp % pp_here) * tp_here + (tp % tp_here) * shape.step
    return Place(rank, device, shape.world, "title")


def shape_of_titles(seen: list[Known]) -> Shape | None:
    """Sizes where no command line gives them (an engine inside a program of one's own): the titles' highest numbers.

    None unless the titles fill the whole: parts of an instance that runs on several nodes say nothing of its size.
    """
    workers = [known for known in seen if known.parts is not None and not known.cut]
    if not workers:
        return None
    sizes = {name: 1 + max(known.parts.get(name, 0) for known in workers) for name in ("TP", "PP", "DP", "PCP")}
    shape = Shape(tp=sizes["TP"], pp=sizes["PP"], dp=sizes["DP"], pcp=sizes["PCP"], given=True)
    return shape if shape.world == len(workers) else None
