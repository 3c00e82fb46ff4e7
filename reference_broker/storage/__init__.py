"""The files of a broker: disk, partition logs, their directory, and the removal and compaction of old records.

Blocking work (a sync, creating or removing a file, a scan) leaves the event loop in one of three ways; use the first
that suffices:

    Background       one piece of work of one log that only changes its own names: a sync, a new segment
    BackgroundQueue  changes of names in the data directory, one after another: topics, checkpoints, removal
    BackgroundJobs   upkeep in many pieces (retention, compaction): generators, one at a time, whose pieces are queued

`Each` closes logs side by side at the end. `Timers` run later work on the event loop.
"""
