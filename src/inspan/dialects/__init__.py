"""Languages that more than one agent speaks."""
