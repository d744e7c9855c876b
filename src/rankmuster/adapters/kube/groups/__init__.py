"""Groups of pods as process groups: ended whole by deletes bound to UIDs, started whole by their own controllers."""
