"""The choice of the engine and the device that a loader runs on."""
