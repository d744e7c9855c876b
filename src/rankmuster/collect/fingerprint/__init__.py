"""What this node's communication path is made of, read from NVML, /sys, /proc and the installed software."""

from __future__ import annotations

from rankmuster.collect.fingerprint.take import take

__all__ = ["take"]
