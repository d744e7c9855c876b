"""`rankmuster kube`: the parts that run in a cluster, and what prepares workloads and clusters for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

import typer

from rankmuster.cli.commands import Command

app = typer.Typer(
    name="kube",
    help="Run the parts of a Kubernetes cluster, and prepare workloads for them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (
    # what prepares
    Command("inject", "kube_inject:inject", "Add the sidecar and the environment to a pod template."),
    Command("crds", "kube_crds:crds", "Print the CustomResourceDefinitions."),
    # what runs in the cluster
    Command("controller", "kube_controller:controller", "Run the runbook and the admission of a cluster."),
    Command("sidecar", "kube_sidecar:sidecar", "Watch the instance of this pod, and hand out its evidence."),
    Command("agent", "kube_agent:agent", "Hand out hardware, kernel and topology of this node."),
    Command("admit-job", "kube_admit_job:admit_job", "What an admission's Job runs on its node."),
    # what people do
    Command("release", "kube_release:release", "Take away everything that is ours and holds something."),
)


def _asked(arguments: Sequence[str]) -> tuple[Command, ...]:
    """The one that is asked for; all where that is not known."""
    words = [one for one in arguments[1:] if not one.startswith("-")] if arguments[:1] == ["kube"] else []
    wanted = tuple(one for one in COMMANDS if words and one.name == words[0])
    return wanted or COMMANDS


for _command in _asked(sys.argv[1:]):
    if find_spec(f"rankmuster.cli.{_command.place.partition(':')[0]}") is not None:
        _command.add_to(app)
