"""The launch checklist, one item a file: a function from facts to its answer."""
