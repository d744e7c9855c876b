"""The runbook as a state machine: an incident is its events, and what is to be done follows from them. Pure."""
