"""Moving bytes to and from agents."""
