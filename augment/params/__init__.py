"""Parameters of a batch: what the transforms decided and an engine executes."""
