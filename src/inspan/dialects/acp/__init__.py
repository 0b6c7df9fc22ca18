"""The Agent Client Protocol, version 1: JSON-RPC between us and an agent that listens on its stdin.

Drivers import from `channel`, `profile` and `session_setup`; the rest is loaded when a run speaks it.
"""
