"""The preview of a dataset of text: the tokens of samples, and packed rows."""
