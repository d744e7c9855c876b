"""Nodes are kept out by a taint until a Job on them has passed."""
