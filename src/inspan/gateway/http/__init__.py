"""HTTP/1.1 for both sides of the gateway; start reading at `server.py` and `client.py`."""
