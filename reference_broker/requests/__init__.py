"""How requests are handled: those of one client in order, answers that come later, errors."""
