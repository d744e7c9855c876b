"""Faults made on purpose in a real job, and whether collecting and diagnosing names them.

torch is imported in `rank_loop`, `rank_steps`, `plain_loop` and `serve_loop` alone, which nothing but a rank's own
process imports: everything else here works in the base install.
"""
