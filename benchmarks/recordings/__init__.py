"""Programs that made recorded data of `book/results`."""
