"""The runbook's steps: one file each, a function from a `Scene` to how it ended."""
