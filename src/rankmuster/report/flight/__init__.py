"""How a set of Flight Recorder dumps is written: for a terminal and as JSON."""
