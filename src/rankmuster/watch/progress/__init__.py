"""The pure core: a window of observations, one look at it, and a model over looks. Clocks are the caller's."""
