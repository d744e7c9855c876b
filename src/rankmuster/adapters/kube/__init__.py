"""Kubernetes' own objects as actuators and evidence: readiness, groups of pods, taints, events."""
