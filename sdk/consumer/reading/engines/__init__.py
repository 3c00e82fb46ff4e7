"""The engines that hand out records: `native.pyx` does in C what `python.py` does in plain Python."""
