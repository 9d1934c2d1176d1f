"""Replay: any batch of a training, shown sample by sample; ``stoker replay`` calls :func:`.run.replay`."""
