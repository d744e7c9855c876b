"""What `rankmuster top` shows: a snapshot in, something to print out. Pure."""
