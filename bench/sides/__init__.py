"""The two programs that are compared, each run in a process of its own so that its CPU and memory are its own."""
