"""Spark: data sources, writers and functions for what Kafka stores and sends, and the audit that is made of them.

`columns/` has functions for columns with raw bytes. `segments/` is the data source of a broker's files, `brokers/` the
one that fetches; both read in batch and as a stream. `sink/` writes to topics. `audit/` makes tables and a report.

What they share is here: `schema` and `decoder` make the connector's columns, `damage` and `loss` say what becomes of
what cannot be read, `isolation` and `order` which records count, and `option_values`, `selection`, `client_options` and
`logins` read options.
"""
