"""Whether the runs are of the node that the fingerprint names: its host, GPUs and NCCL, and as many GPUs as were meant.

Files are brought together by hand, and a benchmark may see less than the node has. What a run says of itself is
compared with the fingerprint, word by word where both say it; a contradiction is an error, never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rankmuster.admission.plan import Plan, Taken
from rankmuster.admission.unchanged import MOST
from rankmuster.evidence.pci import bus_id
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.unknown import Unknown

SAME_NODE, SAME_VERSIONS = "same-node", "same-versions"

_NO_NAME = frozenset({"", "localhost", "(none)"})
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def belonging_checks(runs: Sequence[BenchmarkRun], taken: Taken, plan: Plan) -> list[Check]:
    """ERROR with what contradicts the fingerprint, both sides named; UNKNOWN where a run does not say its GPUs."""
    checks = []
    odd = list(dict.fromkeys(words for run in runs for words in _node(run, taken, plan)))
    if odd:
        statement = f"the benchmark is not of the node that the fingerprint names: {_some(odd)}"
        advice = "bring the fingerprint of the node that was measured, or measure all of its GPUs (fewer: --gpus)"
        checks.append(_check(SAME_NODE, CheckState.ERROR, statement, advice))
    if any(run.measurements and not run.members for run in runs):
        words = "the benchmark does not say on which GPUs it ran (its list of ranks is missing)"
        checks.append(_check(SAME_NODE, CheckState.UNKNOWN, words, "give the tool's whole output"))
    odd = list(dict.fromkeys(words for run in runs for words in _versions(run, taken)))
    if odd:
        statement = f"the benchmark ran with other software than the fingerprint names: {_some(odd)}"
        advice = "take the fingerprint where the benchmark runs, and let it use the NCCL that the node will serve with"
        checks.append(_check(SAME_VERSIONS, CheckState.ERROR, statement, advice))
    return checks


def _node(run: BenchmarkRun, taken: Taken, plan: Plan) -> Iterator[str]:
    fingerprint = taken.fingerprint
    hosts = sorted({short(rank.host) for rank in run.ranks} - _NO_NAME)
    if len(hosts) > 1:
        yield f"its ranks are on {len(hosts)} hosts ({', '.join(hosts[:MOST])}), and one node is admitted"
    elif hosts and fingerprint.host is not None and short(fingerprint.host) not in (*_NO_NAME, hosts[0]):
        yield f"it ran on {hosts[0]}, and the fingerprint is of {short(fingerprint.host)}"
    if run.members:
        yield from _count(run.members, taken, plan)
    models = sorted({rank.gpu_model for rank in run.ranks if rank.gpu_model})
    known = fingerprint.gpu_model
    if isinstance(known, str):
        other = [model for model in models if not _same_model(model, known)]
        if other:
            yield f"it ran on {', '.join(other[:MOST])}, and the fingerprint has {known}"
    yield from _places(run, taken)


def _count(ranks: int, taken: Taken, plan: Plan) -> Iterator[str]:
    asked = plan.gpus or plan.profile.ranks
    count = taken.fingerprint.gpu_count
    if asked is not None and ranks != asked:
        whose = "--gpus asks" if plan.gpus else f"the profile {plan.profile.name} asks"
        yield f"it ran on {ranks} GPU(s), and {whose} for {asked}"
    elif asked is None and isinstance(count, int) and ranks != count:
        yield f"it ran on {ranks} GPU(s), and the node has {count}"


def _places(run: BenchmarkRun, taken: Taken) -> Iterator[str]:
    gpus = () if taken.path is None or isinstance(taken.path.gpus, Unknown) else taken.path.gpus
    known = {bus_id(gpu.bus_id) or gpu.bus_id for gpu in gpus if isinstance(gpu.bus_id, str)}
    if not gpus or len(known) != len(gpus):
        return
    other = sorted({rank.bus_id for rank in run.ranks if rank.bus_id and bus_id(rank.bus_id) not in known})
    if other:
        yield f"it ran on a GPU at {', '.join(other[:MOST])}, and the fingerprint's are at {', '.join(sorted(known))}"


def _versions(run: BenchmarkRun, taken: Taken) -> Iterator[str]:
    known, ran = taken.fingerprint.nccl_version, run.nccl_version
    if ran and isinstance(known, str):
        numbers = _NUMBERS.match(ran), _NUMBERS.match(known)
        if all(numbers) and numbers[0][0] != numbers[1][0]:  # type: ignore[index]  # both matched
            yield f"NCCL {ran}, {known} in the fingerprint"


def short(host: str) -> str:
    """A host's name without its domain: tools print one or the other."""
    return host.strip().partition(".")[0].lower()


def _same_model(ran: str, known: str) -> bool:
    """A slice of a GPU (MIG) is named after it; drivers before 455 left out the maker."""
    one, other = (name.removeprefix("NVIDIA ").strip().casefold() for name in (ran, known))
    return one == other or one.startswith(f"{other} mig ")


def _some(words: Sequence[str]) -> str:
    more = f"; and {len(words) - MOST} more" if len(words) > MOST else ""
    return "; ".join(words[:MOST]) + more


def _check(name: str, state: CheckState, words: str, advice: str) -> Check:
    return Check(name, CheckGroup.ENVIRONMENT, state, "the node", words, advice, required=True)
