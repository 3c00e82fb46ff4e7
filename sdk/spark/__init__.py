"""Spark: data sources, writers and functions for data that Kafka stores or sends, and an audit built on them.

`columns/` contains functions for columns of raw bytes. `segments/` is the data source for a broker's files, and
`brokers/` the one that fetches from brokers; both support batch and streaming queries. `sink/` writes to topics.
`audit/` builds tables and a report.

This folder itself contains the shared parts: `schema` and `decoder` build the connector's columns, `damage` and `loss`
handle unreadable data, `isolation` and `order` determine which records to read, and `option_values`, `selection`,
`client_options` and `logins` parse options.
"""
