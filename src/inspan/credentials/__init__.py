"""How a run gets access to its model: a key or a login."""
