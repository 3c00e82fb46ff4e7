"""The inputs of `kafkawire codegen explain`: frames, record batches, log segments, and captures (three layers)."""
