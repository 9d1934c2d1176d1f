"""Image codecs: recognition, headers, decoding to RGB and re-encoding."""
