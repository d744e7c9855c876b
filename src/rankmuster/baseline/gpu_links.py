"""NVLink rates by GPU model, for nodes whose links could not be read. NVIDIA's data sheets, GB/s of one direction."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkRate:
    """`gbs`: all links of one GPU; 0 for none. `to_all`: the usual systems join all GPUs through NVSwitch or a full
    mesh; False where bridges join two to four cards. `link_gbs`: one link at its rate; 0 where there is none."""

    gbs: float
    to_all: bool
    source: str
    link_gbs: float = 0.0


_LINK_RATE = re.compile(r"NVLink (\d)")
_LINK_GBS = {2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}
"""GB/s of one direction of one link by NVLink's generation (NVIDIA's white papers of V100 to Blackwell). Drivers tell
the rate of the wires, which is up to 6.25 % more (26.562 on H200)."""

_SHEET = "NVIDIA's data sheet of {}"
_TABLE: tuple[tuple[str, float, bool, str], ...] = (
    # A form of a name that says more stands before one that says less.
    (r"\b(GB300|B300|GB200|B200)\b", 900, True, "NVLink 5, 18 x 50"),
    (r"\bH800\b(?!.*PCIe)", 200, True, "NVLink 4, limited"),
    (r"\b(H100|H200|H800)\b.*\bNVL\b", 300, False, "NVLink 4 bridge"),
    (r"\bH100\b.*\bPCIe\b", 300, False, "NVLink 4 bridge"),
    (r"\b(H100|H200|H20|GH200)\b", 450, True, "NVLink 4, 18 x 25"),
    (r"\bA800\b.*\bPCI", 200, False, "NVLink 3 bridge, limited"),
    (r"\bA800\b", 200, True, "NVLink 3, limited"),
    (r"\bA100\b.*\bPCI", 300, False, "NVLink 3 bridge"),
    (r"\bA100\b", 300, True, "NVLink 3, 12 x 25"),
    (r"\bV100\b.*\bPCI", 0, False, "no NVLink"),
    (r"\bV100\b", 150, False, "NVLink 2, 6 x 25, a mesh that does not join all of eight"),
    (r"\b(L40S?|L4|L20|T4|A10G?|A2|A16|A30|RTX PRO 6000)\b", 0, False, "no NVLink between all"),
)


def nvlink_of(model: str | None) -> LinkRate | None:
    """By the name that the driver gives ("NVIDIA H200"); None for a model that is not in the table."""
    if model is None:
        return None
    for form, gbs, to_all, links in _TABLE:
        if re.search(form, model, re.IGNORECASE):
            generation = _LINK_RATE.match(links)
            link_gbs = _LINK_GBS[int(generation[1])] if generation else 0.0
            return LinkRate(gbs, to_all, f"{_SHEET.format(model)}: {links}", link_gbs)
    return None
