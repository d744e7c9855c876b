"""Starting one benchmark on several nodes: command lines are made by pure functions, and started in one place."""
