"""A pod template with the sidecar, on the client side."""
