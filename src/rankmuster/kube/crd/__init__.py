"""Our resources: pydantic models, and the structural schemas made from them."""
