"""What must be refused: a table for each layer of the package, and how its rows are made."""
