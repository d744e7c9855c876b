"""The sidecar in a pod and the agent of a node, with what they say to the controller."""
