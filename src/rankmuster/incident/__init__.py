"""Incidents: the runbook, its journal's use, and what acts for it."""
