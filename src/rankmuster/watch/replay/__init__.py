"""Signals of captures and of synthetic hours through the real window, look and model, as fast as they go."""
