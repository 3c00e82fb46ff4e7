"""What a broker stores beside its segments: the formats of its files, read without a broker.

The reference broker writes and reads them here, `kafkawire dump` shows them, and an audit takes them as witnesses.
"""
