"""The formats of a broker's files, except records: one module for each, from bytes to entries and back.

The reference broker reads and writes its files with them, `kafkawire dump` shows them, and Spark uses them as indexes
and as evidence. No module here accesses a disk; the reader decides what damage means (`damage.py`).
"""
