"""Programs around a fleet that runs: a client, a view, probes and mocks."""
