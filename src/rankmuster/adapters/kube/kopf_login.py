"""How kopf gets into the cluster: with what our own client found, so that both are the same user of the same one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankmuster.adapters.kube.connecting import loader


def connection(kubeconfig: Path | None, context: str | None, **_: Any) -> Any:
    """A kopf.ConnectionInfo; kopf asks again when the server does not accept it any more. Raises KubeError."""
    import kopf

    found = loader(kubeconfig, context)()
    header = next(
        (
            str(one["value"])
            for one in found.auth_settings().values()
            if isinstance(one, dict) and str(one.get("key", "")).lower() == "authorization" and one.get("value")
        ),
        "",
    )
    scheme, _space, token = header.strip().partition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        scheme=scheme if token else None,
        token=token or scheme or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )
