"""Takes the place of Horovod in tests where it is not installed; only what the guide's recipe calls."""
