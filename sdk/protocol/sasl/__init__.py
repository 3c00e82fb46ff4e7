"""The client's side of SASL, without I/O: one module for each mechanism."""
