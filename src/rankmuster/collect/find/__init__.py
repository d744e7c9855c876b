"""Which instance runs on this node: its processes, ranks and GPUs. `search.find` is the entrance."""
