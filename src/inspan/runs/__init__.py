"""Runs that exist: found, listed, followed, stopped, deleted."""
