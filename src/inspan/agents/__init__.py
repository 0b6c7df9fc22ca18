"""Which agents there are, and their programs on this machine."""
