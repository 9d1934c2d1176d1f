"""Tables in Parquet and Arrow files, as Hugging Face's datasets write them, as sources of conversions."""
