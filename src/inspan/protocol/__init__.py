"""The words: events, commands, task, limits, usage, outcomes, ids. Imports nothing else of inspan."""
