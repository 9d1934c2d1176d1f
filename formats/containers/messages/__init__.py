"""The messages inside records: tf.train.Example and Datum, and the facts of an image that both hold."""
