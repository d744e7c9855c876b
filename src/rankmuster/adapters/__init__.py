"""Gateways, schedulers, supervisors and other programs that act for us, behind the Protocols of `incident.actuators`."""
