"""Blocking faces of the clients, on an I/O thread each; `kafkawire.sync` exports them."""
