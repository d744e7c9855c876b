"""Metrics as they are declared: names, labels with their bounds, buckets; one registry for every part that has some."""
