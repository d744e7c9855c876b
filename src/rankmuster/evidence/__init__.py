"""Bytes to observations: one file a format, and the bundle. Parsers take bytes and never open a file."""
