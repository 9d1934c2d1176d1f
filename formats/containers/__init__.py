"""Containers of records (TFRecord, LMDB) and the messages inside them (Example, Datum)."""
