"""What one start is called: never the same for two.

The second of the start, the supervisor's pid, how many starts it has made, and the boot: two supervisors of one pid
cannot be within one second of one boot, and numbers tell the starts of one supervisor apart. Nothing in it is changed
by what finds the group (`collect.find.naming.clean`), nor where it becomes a folder's name (`environment.place`).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

_OURS = re.compile(r"\d{8}T\d{6}Z-(\d+)-\d+-([0-9a-f]{8})")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id(file: Path = _BOOT_ID) -> str:
    """Never the same for two boots; "unknown" where it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()[:64] or "unknown"
    except (OSError, ValueError):
        return "unknown"


def short_boot(boot: str) -> str:
    """Eight hexadecimal digits of it."""
    found = "".join(one for one in boot.lower() if one in "0123456789abcdef")[:8]
    return found.ljust(8, "0")


def incarnation(at: float, pid: int, number: int, boot: str) -> str:
    """`at`: unix seconds. `number`: of the start, by this supervisor."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(max(at, 0.0)))
    return f"{stamp}-{pid}-{number}-{short_boot(boot)}"


def of_another_boot(name: str, boot: str) -> bool:
    """Whether a supervisor has given it before the machine was started last: nothing of it can live."""
    found = _OURS.fullmatch(name)
    return found is not None and boot != "unknown" and found.group(2) != short_boot(boot)


def is_ours(name: str, boot: str) -> bool:
    """Whether a supervisor has given it, in this boot."""
    found = _OURS.fullmatch(name)
    return found is not None and found.group(2) == short_boot(boot)
