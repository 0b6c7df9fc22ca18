"""Whatever the command line can do, for a program: on this machine, or over HTTP by the same methods."""
