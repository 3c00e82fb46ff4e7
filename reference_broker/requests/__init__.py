"""Request handling: in order for each client, with delayed responses, and with error responses."""
