"""Drift of a node and of a fleet: what changed since the baseline, who got slower, one node or many, and with what."""
