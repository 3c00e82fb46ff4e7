"""The files of a broker: disk, partition logs, their directory, and retention and compaction.

Blocking work (a sync, a scan, the creation or removal of a file) is moved off the event loop in one of three ways; use
the first that suffices:

    Background       one piece of work on one log that changes only that log's names: a sync, a new segment
    BackgroundQueue  changes of names in the data directory, one after another: topics, checkpoints, removal
    BackgroundJobs   upkeep in many pieces (retention, compaction): generators, one at a time, whose pieces are queued

`Each` closes logs in parallel at shutdown. `Timers` schedule work on the event loop.
"""
