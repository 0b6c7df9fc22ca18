"""One file per command: its docstring's first line is its help, its `command` is what runs."""
