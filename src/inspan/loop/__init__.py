"""A task that is tried until it is done: restarts, checks, a second opinion, and an end that no text can trip."""
