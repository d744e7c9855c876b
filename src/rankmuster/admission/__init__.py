"""Whether a node may join the pool: its checks, and the record of the decision."""
