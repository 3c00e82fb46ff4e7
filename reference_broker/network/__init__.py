"""Where clients come in: listeners, connections, the memory that they share, the clock and the threads."""
