"""The controller's process: who leads, what is open, what it is told, and how it ends."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankmuster.cli.incident_place import opened as journal_opened
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.cli.told_to_end import told_to_end

if TYPE_CHECKING:
    from rankmuster.adapters.kube.client import Client
    from rankmuster.kube.controller.settings import ControllerSettings
    from rankmuster.store.history import History
    from rankmuster.store.journal import Journal

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

END_SECONDS = 5.0


def serve(settings: ControllerSettings, kubeconfig: Path | None, context: str | None) -> int:
    """Until told to end. Raises CommandError where it could not begin."""
    from rankmuster.adapters.kube.api import KubeError
    from rankmuster.adapters.kube.client import connect
    from rankmuster.kube.controller.calls import Calls
    from rankmuster.kube.controller.election import Election

    counted = Calls()
    try:
        api = connect(kubeconfig, context, told=counted.told)
    except KubeError as error:
        raise CommandError(str(error)) from error
    namespace = settings.namespace or _own_namespace()
    us = f"{socket.gethostname()}-{secrets.token_hex(3)}"
    stop, lost = threading.Event(), threading.Event()
    with told_to_end(stop.set), ExitStack() as stack:
        stack.callback(api.close)
        serving = stack.enter_context(_page(settings, counted))
        election = Election(
            api,
            settings.election,
            namespace,
            us,
            clock=time.monotonic,
            unix_now=time.time,
            wait=stop.wait,
            say=log,
        )
        if settings.dry_run:
            log("dry_run: nothing acts, no resource is written, and no Lease is taken")
        elif not election.lead():
            return ExitStatus.HEALTHY
        if not settings.dry_run:
            keeper = threading.Thread(target=_keep, args=(election, stop, lost), name="lease", daemon=True)
            keeper.start()
            stack.callback(keeper.join, END_SECONDS)
            stack.callback(stop.set)
        with journal_opened(journal_of(settings), "serving the cluster", create=True) as store:
            history = stack.enter_context(_history(settings))
            _work(settings, api, (store, history), stop, lost, (kubeconfig, context), serving, namespace)
    return ExitStatus.FAULT if lost.is_set() else ExitStatus.HEALTHY


def _keep(election: Any, stop: threading.Event, lost: threading.Event) -> None:
    election.keep()
    if not stop.is_set():
        lost.set()  # the process ends: whoever leads now must not meet us
        stop.set()


def _work(
    settings: ControllerSettings,
    api: Client,
    kept: tuple[Journal, History],
    stop: threading.Event,
    lost: threading.Event,
    where: tuple[Path | None, str | None],
    serving: Any,
    namespace: str,
) -> None:
    from rankmuster.cli.incident_runners import holder
    from rankmuster.kube.controller.assembly import assemble
    from rankmuster.kube.controller.watching import Watching

    store, history = kept
    made = assemble(
        settings,
        api,
        store,
        history=history,
        namespace=namespace,
        holder=holder("kube"),
        host=socket.gethostname(),
        say=log,
    )
    controller = made.controller

    def failed(why: str) -> None:
        log(why)
        lost.set()
        stop.set()

    watching = Watching(settings, controller.sinks(), kubeconfig=where[0], context=where[1], say=log, failed=failed)
    acting = ", ".join(settings.enable) if settings.enable and not settings.dry_run else "nothing: it only observes"
    log(f"serving {api.server}; journal {store.name}; may act: {acting}")
    serving.follow(controller, store)
    watching.start()
    try:
        controller.run(stop)
    finally:
        watching.stop(END_SECONDS)
        made.close(END_SECONDS)


def journal_of(settings: ControllerSettings) -> str:
    """The settings' own, then the environment's (a Secret), then a file beside the evidence."""
    from rankmuster.store.kind import JOURNAL

    return settings.journal or _named(settings, JOURNAL.variable) or str(settings.folder / JOURNAL.file_name)


def history_of(settings: ControllerSettings) -> str:
    """As `journal_of`."""
    from rankmuster.store.kind import HISTORY

    return settings.history or _named(settings, HISTORY.variable) or str(settings.folder / HISTORY.file_name)


def _named(settings: ControllerSettings, variable: str) -> str:
    """A dry run takes no part in what others do: not in the database that a person's own shell happens to name."""
    return "" if settings.dry_run else os.environ.get(variable, "")


def _history(settings: ControllerSettings) -> Any:
    from rankmuster.cli.history_place import opened

    return opened(history_of(settings), "serving the cluster", create=True)


def _own_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text(encoding="ascii").strip() or "rankmuster"
    except (OSError, UnicodeDecodeError):
        return os.environ.get("POD_NAMESPACE") or "rankmuster"


def _page(settings: ControllerSettings, counted: Any) -> Any:
    from rankmuster.cli.kube_metrics import page

    return page(settings.listen, counted)


def log(text: str) -> None:
    """As `incident serve` writes it."""
    from rankmuster.cli.incident_serve import log_line

    log_line(text)
