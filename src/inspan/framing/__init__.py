"""Bytes to frames and back, without I/O."""
