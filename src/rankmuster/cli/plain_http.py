"""The standard library's HTTP client without OpenSSL, for a process that lasts: 5 MB that only an https page needs.

`http.client` is made for a Python that was built without `ssl`, and is then the same but for its HTTPSConnection, which
nothing in a watch uses: `collect.logs.http_get` loads `ssl` itself where it is asked for an https page. Other
libraries do use it (prometheus_client imports it), so that this has no place in a process that loads them.
"""

from __future__ import annotations

import importlib
import sys


def load_plain_http() -> None:
    """Imports `http.client` as without `ssl`, which can be imported afterwards as ever. Nothing where it was before."""
    if "ssl" in sys.modules or "http.client" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # as the import system has it: there is no such module
    try:
        importlib.import_module("http.client")
    finally:
        del sys.modules["ssl"]
