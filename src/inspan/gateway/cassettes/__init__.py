"""Cassettes: conversations with a model as text, recorded and played back; start at `record.py`, `replay.py`."""
