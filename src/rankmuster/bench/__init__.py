"""Benchmarks of communication: profiles, nccl-tests and the built-in one, and starting them over nodes."""
