"""Tokenizers of text and captions: the choice of one, vocabularies, and special tokens."""
