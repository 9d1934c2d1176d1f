"""Image codecs: what an encoded image's header says, and how its pixels are decoded."""
