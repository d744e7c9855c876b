"""How long collectives take, who comes late to them, since when, and against what was saved of the same instance."""
