"""The scenarios, by what they are about. Each is a function: one script, one look at what came of it."""
