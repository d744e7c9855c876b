"""rankmuster: calls the roll of every rank of a distributed inference instance.

Imports nothing heavy: `rankmuster --help` must answer at once on a node in trouble.
"""

__version__ = "0.1.0"
