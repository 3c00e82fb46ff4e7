"""Spark: data sources, writers and functions for data that Kafka stores and sends, and the audit built on them.

`columns/` has functions for columns with raw bytes. `segments/` is the data source of a broker's files, and `brokers/`
the data source that fetches; both read in batch and as a stream. `sink/` writes to topics. `audit/` creates tables and
a report.

The shared parts are here: `schema` and `decoder` build the connector's columns, `damage` and `loss` handle unreadable
data, `isolation` and `order` determine which records count, and `option_values`, `selection`, `client_options` and
`logins` read options.
"""
