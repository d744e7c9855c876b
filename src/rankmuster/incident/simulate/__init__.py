"""A fleet's incidents in simulated time: the machine, decisions, limits and the journal, without threads or a world."""
