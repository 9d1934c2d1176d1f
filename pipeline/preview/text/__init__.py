"""The preview of a dataset of text: samples in pieces, and packed rows."""
