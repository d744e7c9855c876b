"""NCCL's RAS service: what a live job says of its own processes and communicators, asked without hurting it.

`release` and `hazards` say which NCCL may be asked what, `policy` decides, `version` finds out which NCCL runs without
asking it; `address`, `namespace`, `client`, `probe`, `poll` and `events` talk; `collector` does all of it in order.
"""
