"""What the watch knows, for others: its metrics, and the file of its state."""
