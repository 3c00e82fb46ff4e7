"""The client's side of SASL: one module for each mechanism, without I/O."""
