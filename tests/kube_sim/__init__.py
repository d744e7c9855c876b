"""A simulated Kubernetes cluster for tests."""
