"""The logs of partitions: segments and indexes, producers and transactions, recovery, retention and compaction."""
