"""The broker's side of SASL mechanisms."""
