"""Parts of reading token ids: what the kernel is asked for, and the tokens that a model is trained on."""
