"""Fingerprints, distributions of measured results, and drift. Pure: no I/O, time and randomness passed in."""
