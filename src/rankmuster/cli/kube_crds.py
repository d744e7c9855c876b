"""`rankmuster kube crds`: the CustomResourceDefinitions and the roles of this version, for whoever applies them."""

from __future__ import annotations

from typing import Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import ExitStatus, doing


def crds(
    rbac: Annotated[
        bool, typer.Option("--rbac", help="Print the roles, one for each thing that may act, in place of the CRDs.")
    ] = False,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Print the CustomResourceDefinitions of this version as YAML.

    They are apart from the objects that use them: apply them first, and take them away last, since their objects go
    with them.

    Exit status: 0, or 3 where the file cannot be written.
    """
    with doing("making the definitions"):
        from rankmuster.kube.crd.render import definitions
        from rankmuster.kube.manifest_yaml import as_yaml
        from rankmuster.kube.rbac_render import roles

        text = as_yaml(roles() if rbac else definitions())
    deliver(text, output)
    return ExitStatus.HEALTHY
