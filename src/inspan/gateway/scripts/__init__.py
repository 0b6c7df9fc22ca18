"""A scripted model: what it answers, and how it picks the tools on offer; start reading at `script.py`."""
