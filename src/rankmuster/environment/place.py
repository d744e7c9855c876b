"""Where one instance's files and its RAS port are, so that no other instance's are the same."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

FIRST_PORT = 28100
PORTS = 1800
"""28100 to 29899: above RAS's own 28028, below Kubernetes' node ports (30000) and Linux's ephemeral ones (32768)."""

MAX_PART = 80
"""Characters of an instance's name in a path; longer ones end in a hash, so that two stay two."""

MAX_NAME = 253
"""Characters of a name: as many as Kubernetes allows."""

_ODD = re.compile(r"[^A-Za-z0-9._+=@-]")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one incarnation. `incarnation` None: every start of the instance writes to the same names.

    `variable`: the incarnation's part is a reference to a variable (`$(NAME)`), written as it is.
    `own`: the folder is nobody else's (a volume of one pod), so that neither name need be in its paths.
    """

    folder: str
    instance: str
    incarnation: str | None
    variable: bool = False
    own: bool = False

    @property
    def own_folder(self) -> str:
        """Without a slash at its end."""
        if self.own:
            return self.folder.rstrip("/")
        parts = [self.folder.rstrip("/"), safe_part(self.instance)]
        if self.incarnation is not None:
            parts.append(self.incarnation if self.variable else safe_part(self.incarnation))
        return "/".join(parts)

    @property
    def dump_prefix(self) -> str:
        """torch appends the global rank."""
        return f"{self.own_folder}/nccl_trace_rank_"

    @property
    def pipe_prefix(self) -> str:
        """torch appends the global rank and `.pipe`."""
        return f"{self.own_folder}/nccl_pipe_rank_"

    @property
    def log_file(self) -> str:
        """NCCL puts host and pid into it; a percent sign of the folder must not be taken for one of these."""
        return f"{self.own_folder.replace('%', '%%')}/nccl_%h_%p.log"


def safe_part(name: str) -> str:
    """One part of a path; what had to be changed or cut ends in a hash of the whole name."""
    cleaned = _ODD.sub("-", name).lstrip(".-")
    if cleaned == name and len(name) <= MAX_PART:
        return cleaned
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{cleaned[:MAX_PART]}-{digest}" if cleaned else digest


def ras_port(instance: str) -> int:
    """The same for every start of the instance, on every node; of two names the same in one of 1800 cases."""
    digest = hashlib.sha256(instance.encode("utf-8", "surrogatepass")).digest()
    return FIRST_PORT + int.from_bytes(digest[:8], "big") % PORTS


def usable_folder(folder: str) -> None:
    """Raises ValueError for a folder that cannot stand in a variable that several processes read."""
    if not folder.startswith("/"):
        raise ValueError(f"the folder {folder[:60]!r} is not absolute; every process would look from where it stands")
    if any(not c.isprintable() for c in folder):
        raise ValueError("the folder has a character that cannot be printed; choose a plain one")
    if len(folder) > 2000:
        raise ValueError("the folder is longer than 2000 characters, and paths end at 4096 bytes")


def usable_name(name: str, what: str) -> None:
    """Raises ValueError for an instance or incarnation that cannot stand in a variable or a comment."""
    if not name or len(name) > MAX_NAME or any(not c.isprintable() for c in name):
        raise ValueError(f"{what} must be 1 to {MAX_NAME} printable characters, not {name[:40]!r}")
