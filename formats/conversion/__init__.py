"""Converting a source into published shards.

The path of a call of ``stoker.convert``:

1. :mod:`.convert` checks the options.
2. :mod:`stoker.formats.sources.registry` finds the format of the source and lists its samples.
3. :mod:`.plan` divides the samples among splits and shards, in order; nothing is read or written.
4. :mod:`.execution` executes the plan. A runner (:mod:`.runners`: threads or Ray) makes each shard that the
   target (:mod:`.targets`: a folder or a URL) lacks with :mod:`.shards.planned_shard`, which encodes the
   samples (:mod:`.shards.encoder`, :mod:`.images`) and writes the records. The target then publishes all
   datasets.

``stoker.convert_text`` joins the path at step 3, with a listing of lines and an encoder of tokens.

:class:`stoker.Writer` (:mod:`.samples`) has no plan: it fills shards with the samples that a program hands
over, through the same modules (:mod:`.images.sample_record`, :mod:`.shards.shard_file`, :mod:`.targets`).
"""
