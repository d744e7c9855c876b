"""The bundle on disk: written whole or not at all, checked, merged across nodes, packed and uploaded."""
