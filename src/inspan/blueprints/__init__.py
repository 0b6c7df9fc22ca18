"""A task as a graph of nodes: decided by a pure function, run by a process of its own."""
