"""Is the instance advancing, slow, idle or stopped, look after look: a window of observations and a model over it."""
