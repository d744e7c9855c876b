"""On Kubernetes: agents beside and below the pods, a controller over the incident engine, admission of nodes."""
