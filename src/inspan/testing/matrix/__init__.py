"""The matrix: one list of scenarios, run on every agent's real program with a scripted model."""
