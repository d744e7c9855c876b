"""Puts this folder on the path, so that tests in `detectors/` find the builders that stand beside this file."""
