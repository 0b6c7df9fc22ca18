"""The HTTP server: the table of operations over HTTP, runs and their output as server-sent events, and the page."""
