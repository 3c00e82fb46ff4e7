"""Work that is done later or in pieces: timers, long computations, what runs in the background."""
