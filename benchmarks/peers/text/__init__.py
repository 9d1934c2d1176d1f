"""The loaders of text that are compared: batches of 64-bit ids and of their mask, padded to one length.

Each is a :class:`stoker.benchmarks.peers.base.Peer` whose batches are pairs ``(input_ids, attention_mask)``
of arrays of NumPy: (N, L) int64, and (N, L) int64 or bool. ``PeerSource.table`` is then the file that
:class:`sequences.Sequences` reads.
"""

__all__ = ["TEXT_PEERS", "TEXT_TITLES"]

TEXT_PEERS = {
    "stoker-text": "text.stoker_text:StokerText",
    "stoker-buckets": "text.stoker_text:StokerBuckets",
    "torch-text": "text.torch_text:TorchText",
    "transformers": "text.transformers_text:TransformersText",
    "tfdata-text": "text.tfdata_text:TFDataText",
    "grain-text": "text.grain_text:GrainText",
    "mosaic-text": "text.mosaic_text:MosaicText",
}
"""Module and class of each loader of text, by its name."""

TEXT_TITLES = {
    "stoker-text": "Stoker, random batches",
    "stoker-buckets": "Stoker, buckets",
    "torch-text": "PyTorch DataLoader, pad_sequence",
    "transformers": "Hugging Face, group_by_length",
    "tfdata-text": "tf.data, bucket_by_sequence_length",
    "grain-text": "Grain, random batches",
    "mosaic-text": "Mosaic Streaming, random batches",
}
