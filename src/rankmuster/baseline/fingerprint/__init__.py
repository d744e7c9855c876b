"""Fingerprints: what a node's communication path is made of as hashes, and what a change does to NCCL's choices."""
