"""Deferred work: timers, long computations, work in pieces and in the background."""
