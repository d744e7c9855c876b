"""Keeps secrets out of bundles: allow-lists for environment and command lines, rules for free text."""
