"""What is done on a stop: evidence, a verdict, the operator's hooks; once an incarnation, each with a deadline."""
