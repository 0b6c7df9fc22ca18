"""Views of a run, computed from its events alone."""
