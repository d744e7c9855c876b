"""The sources that are asked or followed while an instance is watched, one file a source."""
