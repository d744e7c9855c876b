"""The benchmark profile by which the nodes of the simulated clusters are tested: what the recorded runs measured."""

PROFILE_TEXT = """
schema: rankmuster.profile/1
name: all-reduce
description: what the samples measured
steps:
  - operation: all_reduce
    sizes: [{sizes}]
    dtype: float
    iterations: 20
    warmup: 5
"""
