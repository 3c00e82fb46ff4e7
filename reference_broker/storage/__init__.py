"""The files of a broker: the disk, the logs of partitions, their directory, and what removes and compacts old records.

Whatever may block (a sync, a file created or removed, a scan) leaves the event loop in one of three ways; take the
first that is enough:

    Background       one piece of work of one log that changes no names but its own: a sync, a new segment
    BackgroundQueue  changes of names in the data directory, one after the other: topics, checkpoints, removal
    BackgroundJobs   upkeep in many pieces (retention, compaction): generators, one at a time, whose pieces are queued

`Each` closes logs side by side at the end. `Timers` call what is due later, on the event loop.
"""
