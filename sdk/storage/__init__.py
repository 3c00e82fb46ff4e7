"""The formats of what a broker stores beside its records: a module for each, from bytes to entries and back.

The reference broker reads and writes its files with them, `kafkawire dump` shows them, and Spark takes them as indexes
and as witnesses. Nothing here knows a disk; who reads says what damage means (`damage.py`).
"""
