"""The logs of partitions: segments and indexes, producers and transactions, recovery, retention and compaction.

Whatever may block (a sync, a file created or removed, a scan) leaves the event loop in one of three ways; take the
first that is enough:

    Background  one piece of work of one log that changes no names but its own: a sync, a new segment
    Steps       what changes names in the data directory, one after the other: topics, checkpoints, removal
    Jobs        upkeep in many pieces (retention, compaction): generators whose pieces are steps, one job at a time

`Each` closes logs side by side at the end. `Timers` call what is due later, on the event loop.
"""
