"""The messages inside records: tf.train.Example, Datum, and what both say of an image."""
