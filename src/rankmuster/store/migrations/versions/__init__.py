"""One file per version. What is released is never changed: the next change is another file."""
