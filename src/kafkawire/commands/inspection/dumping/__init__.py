"""What `kafkawire dump` reads and writes: one module for each kind of file, and the lines that all of them write."""
