"""One run from its first event to its last, in a supervisor or inside a Python program."""
