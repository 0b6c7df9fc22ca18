"""Which agent does a task best, in this repository: the same start and the same checks for each."""
