"""The broker's metrics: counted at requests, collected at a scrape, served over HTTP."""
