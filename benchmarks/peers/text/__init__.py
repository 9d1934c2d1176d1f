"""The loaders of text that are compared: batches of 64-bit ids and of their mask, padded to one length.

Each is a :class:`stoker.benchmarks.peers.base.Peer` whose batches are pairs ``(input_ids, attention_mask)``
of arrays of NumPy: (N, L) int64, and (N, L) int64 or bool. ``PeerSource.table`` is then the file that
:class:`sequences.Sequences` reads.
"""

__all__ = ["TEXT_PEERS", "TEXT_TITLES"]

_LOADERS = {
    "stoker-text": ("Stoker, random batches", "text.stoker_text:StokerText"),
    "stoker-buckets": ("Stoker, buckets", "text.stoker_text:StokerBuckets"),
    "torch-text": ("PyTorch DataLoader, pad_sequence", "text.torch_text:TorchText"),
    "transformers": ("Hugging Face, group_by_length", "text.transformers_text:TransformersText"),
    "tfdata-text": ("tf.data, bucket_by_sequence_length", "text.tfdata_text:TFDataText"),
    "grain-text": ("Grain, random batches", "text.grain_text:GrainText"),
    "mosaic-text": ("Mosaic Streaming, random batches", "text.mosaic_text:MosaicText"),
}
"""Title, and module and class, of each loader of text by its name."""
TEXT_TITLES = {name: title for name, (title, _) in _LOADERS.items()}
TEXT_PEERS = {name: module_and_class for name, (_, module_and_class) in _LOADERS.items()}
