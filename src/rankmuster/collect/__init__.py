"""Takes the evidence of a live instance: the only package that talks to sockets, GPUs, /proc and /sys.

`run` starts every collector at once, each under its own deadline and all under one; a collector puts what it took into
the `sink` and says how it ended (`outcome`). What one does not bring is written down and never holds up another.
"""
