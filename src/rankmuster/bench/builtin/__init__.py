"""The benchmark that needs only torch: nccl-tests' operations, sizes and units, with correctness checked.

`run.run_builtin` starts the ranks on this node and reads what they say; `python -m rankmuster.bench.builtin` is one
rank, which any launcher can start (`rankmuster.bench.launch`). A rank imports torch, the standard library and
`rankmuster.model`, nothing else: it has to run in an engine's own environment.
"""
