"""Tokenizers of a conversion of text: which one it takes, their vocabularies, and their special tokens."""
