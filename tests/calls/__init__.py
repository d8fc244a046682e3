"""One good call of every public function and class of the package that checks its signature."""
