"""The engines of `send`: `native.pyx` does in C what `python.py` does in plain Python."""
