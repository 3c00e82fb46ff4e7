"""The formats of a broker's files other than records. Each module parses and writes the entries of one format.

The reference broker reads and writes its files with these modules, `kafkawire dump` displays the files, and Spark uses
them as indexes and as evidence. None of these modules accesses the disk; the caller decides how to handle damage
(`damage.py`).
"""
