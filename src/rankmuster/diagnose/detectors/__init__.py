"""Detectors: functions from the aligned context to findings, one idea a file, each with its blind spots stated."""
