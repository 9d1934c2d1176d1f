"""A stand-in for Horovod where it is not installed: the functions that the guide's recipe calls."""
