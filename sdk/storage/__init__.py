"""The formats of a broker's files, except records: one module for each, which parses and writes its entries.

The reference broker reads and writes its files with these modules, `kafkawire dump` displays the files, and Spark uses
them as indexes and as evidence. No module here accesses a disk; the caller decides how to handle damage (`damage.py`).
"""
