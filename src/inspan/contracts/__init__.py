"""What the rooms promise each other: each contract fits on a screen."""
