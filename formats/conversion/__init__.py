"""Conversions into published shards: :mod:`.convert` names every stage of a conversion, in order."""
