"""Bytes on disk: shards, the sample index, and all that makes, opens and checks a dataset.

Each part imports only from those before it: ``files`` and ``concurrency``; ``remote``, storage at URLs;
``codecs``, image codecs; ``containers``, formats of shards; ``dataset``, manifest, index and samples;
``caching``, remote datasets on a local disk; ``open``; ``sources``, images and what is known of them;
``conversion``, which writes shards; ``external``, shards of other programs; ``text``; ``verification``.
"""
