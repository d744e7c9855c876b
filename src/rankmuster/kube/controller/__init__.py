"""The controller: policies to settings of the incident engine, its journal to resources."""
