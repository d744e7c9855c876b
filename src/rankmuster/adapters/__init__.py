"""Gateways, schedulers, supervisors and other programs that act for us: the Protocols are `incident.actuators`'."""
