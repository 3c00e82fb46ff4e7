"""Turn specs into text: generated modules and reference pages."""
