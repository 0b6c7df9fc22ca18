"""What the operating system and the event loop need handled with care."""
