"""Descriptions of loaders as data that JSON can hold, from which ``stoker replay`` makes them again."""
