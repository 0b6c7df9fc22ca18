"""The command line: a thin face. Data goes to stdout, progress to stderr; one file per command in `commands/`."""
