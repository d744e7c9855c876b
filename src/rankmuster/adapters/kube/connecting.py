"""Where an API server is and by what it knows us: the official client's own reading of kubeconfig and service account.

It is read anew after a 401: an exec plugin's certificate and a service account's token are replaced while we run. A
plugin that hangs holds up one call until that one's deadline, and the calls beside it until theirs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankmuster.adapters.http_call import server_of
from rankmuster.adapters.kube.api import KubeError
from rankmuster.collect.deadline import Deadline

KUBECONFIG = "KUBECONFIG"
DEFAULT_FILE = Path("~/.kube/config")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

CONNECT_SECONDS = 30.0
"""For the first reading: an exec plugin may ask a person's browser, but not for ever."""

Load = Callable[[], Any]
"""Gives a `kubernetes.client.Configuration`; raises KubeError."""


def loader(kubeconfig: Path | None, context: str | None, environ: Mapping[str, str] | None = None) -> Load:
    """How the configuration is read. Raises KubeError where there is none: the message says where it was looked for.

    A file that was named is the only one. Else $KUBECONFIG, ~/.kube/config, and the service account of the pod; inside
    a pod the service account comes before ~/.kube/config, which nobody has put there on purpose.
    """
    given = os.environ if environ is None else environ
    client = _library()
    if kubeconfig is not None:
        if not kubeconfig.expanduser().is_file():
            raise KubeError(f"there is no kubeconfig at {kubeconfig}")
        return _of_files(client, str(kubeconfig.expanduser()), context)
    named = given.get(KUBECONFIG, "")
    if named:
        if not any(Path(one).expanduser().is_file() for one in named.split(os.pathsep) if one):
            raise KubeError(f"${KUBECONFIG} names {named}, and there is no such file")
        return _of_files(client, named, context)
    inside = bool(given.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()
    if inside and context is None:
        return _of_pod(client, given)
    if DEFAULT_FILE.expanduser().is_file():
        return _of_files(client, str(DEFAULT_FILE.expanduser()), context)
    raise KubeError(
        f"no cluster was found: ${KUBECONFIG} is not set, there is no {DEFAULT_FILE}, and this is no pod with a "
        f"service account ($KUBERNETES_SERVICE_HOST and {SERVICE_ACCOUNT}/token). Name a file in ${KUBECONFIG}"
    )


def _library() -> Any:
    try:
        import kubernetes.client  # type: ignore[import-untyped]
        import kubernetes.config  # type: ignore[import-untyped]
    except ImportError as error:
        raise KubeError(
            f"the Kubernetes client is not installed ({error.name}): pip install 'rankmuster[kubernetes]'"
        ) from error
    return kubernetes


def _of_files(library: Any, files: str, context: str | None) -> Load:
    def load() -> Any:
        configuration = _plain(library)
        try:
            library.config.load_kube_config(
                config_file=files, context=context, client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # whatever a plugin or a file makes of it
            which = f"context {context} of {files}" if context else files
            raise KubeError(f"kubeconfig {which} cannot be used: {_first_line(error)}") from error
        return configuration

    return load


def _of_pod(library: Any, environ: Mapping[str, str]) -> Load:
    def load() -> Any:
        configuration = _plain(library)
        try:
            library.config.incluster_config.InClusterConfigLoader(
                token_filename=str(SERVICE_ACCOUNT / "token"),
                cert_filename=str(SERVICE_ACCOUNT / "ca.crt"),
                environ=environ,
            ).load_and_set(configuration)
        except Exception as error:
            raise KubeError(f"the pod's service account cannot be used: {_first_line(error)}") from error
        return configuration

    return load


def _plain(library: Any) -> Any:
    configuration = library.client.Configuration()
    configuration.retries = False  # ours: they know of the deadline
    return configuration


def _first_line(error: BaseException) -> str:
    """What readers of kubeconfigs say names keys and files, no values."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


class Credentials:
    """The configuration and the Authorization header of now. `generation` grows each time it has been read anew."""

    def __init__(self, load: Load, deadline: Deadline) -> None:
        self._load = load
        self._lock = threading.Lock()
        self.configuration: Any = _bounded(load, deadline)
        self.generation = 1

    @property
    def server(self) -> str:
        """Scheme, host and port."""
        return server_of(str(self.configuration.host))

    def header(self, deadline: Deadline) -> str | None:
        """Refreshed by the client library's own hook. Raises KubeError (late where it took too long)."""
        with _Held(self._lock, deadline):
            settings = _bounded(self.configuration.auth_settings, deadline)
            for one in settings.values():
                if isinstance(one, dict) and str(one.get("key", "")).lower() == "authorization" and one.get("value"):
                    return str(one["value"]).strip()
            return None

    def again(self, generation: int, deadline: Deadline) -> bool:
        """Reads all anew, unless another thread has since `generation`. False where it cannot be read."""
        with _Held(self._lock, deadline):
            if self.generation == generation:
                try:
                    self.configuration = _bounded(self._load, deadline)
                except KubeError:
                    return False
                self.generation += 1
            return True


class _Held:
    def __init__(self, lock: threading.Lock, deadline: Deadline) -> None:
        self._lock, self._deadline = lock, deadline

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._deadline.remaining()):
            raise KubeError("credentials are being refreshed by another call, and were not in time", late=True)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _bounded(work: Callable[[], Any], deadline: Deadline) -> Any:
    """In a thread that is left behind where it does not end: exec plugins are waited for without a time-out."""
    found: list[Any] = []
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=ask, name="kube credentials", daemon=True)
    thread.start()
    thread.join(deadline.remaining())
    if found:
        return found[0]
    if failed:
        error = failed[0]
        if isinstance(error, KubeError):
            raise error
        raise KubeError(f"credentials could not be refreshed: {_first_line(error)}") from error
    raise KubeError("credentials were not there in time: a plugin of the kubeconfig hangs", late=True)
