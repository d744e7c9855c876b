"""Alignment, detectors, verdict and the recovery table: pure functions over evidence."""
