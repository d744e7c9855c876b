"""What is done once when an instance has stopped: evidence, a verdict, and whoever is to be told."""
