"""Commands that measure loaders."""
