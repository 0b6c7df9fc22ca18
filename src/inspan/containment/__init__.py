"""Nothing survives a run: whatever an agent starts is ended with it."""
