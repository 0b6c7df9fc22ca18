"""One file per agent; the folder is the registry. Each file holds its `DRIVER` and nothing outside names it."""
