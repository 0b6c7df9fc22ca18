"""Telling people and programs how a run goes: on a screen, as JSON lines, or only what must be said."""
