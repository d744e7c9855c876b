"""The commands. Nothing heavy is imported before a command needs it: help must answer at once on a sick node."""
