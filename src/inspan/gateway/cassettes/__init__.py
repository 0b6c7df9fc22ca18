"""Cassettes: conversations with a model as text, recorded and played back; start at `recording.py`, `replaying.py`."""
