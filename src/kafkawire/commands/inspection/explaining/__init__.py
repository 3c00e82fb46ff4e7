"""What `kafkawire codegen explain` reads: frames, record batches, log segments, and captures in three layers."""
