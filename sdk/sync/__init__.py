"""Blocking clients, each on an I/O thread; `kafkawire.sync` exports them."""
