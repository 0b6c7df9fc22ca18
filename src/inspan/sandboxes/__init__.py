"""How an agent's process is held: containment always, a real boundary where it is asked for."""
