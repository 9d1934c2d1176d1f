"""DALI's readers of shards, in processes of their own: some failures of DALI end its process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.processes import printed_json

_PREAMBLE = """
import json, sys
import numpy as np
from nvidia.dali import fn, pipeline_def, tfrecord

arguments = json.loads(sys.argv[1])

def print_rows(pipeline):
    pipeline.build()
    for _ in range(arguments["samples"]):
        print(json.dumps([np.asarray(output.as_cpu()[0]).tolist() for output in pipeline.run()]))
"""

_TFRECORD = """
@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def pipeline():
    features = fn.readers.tfrecord(path=arguments["paths"], index_path=arguments["indexes"], features={
        "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        "image/height": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
    })
    image = fn.decoders.image(features["image/encoded"])
    return features["image/encoded"], features["image/class/label"], features["image/height"], image.shape()

print_rows(pipeline())
"""

_CAFFE = """
@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def pipeline():
    encoded, label = fn.readers.caffe(path=arguments["paths"])
    return encoded, label, fn.decoders.image(encoded).shape()

print_rows(pipeline())
"""


def read_tfrecord(files: Sequence[Path], indexes: Sequence[Path], samples: int) -> list[Any]:
    """Returns the encoded image, label, height and decoded shape of each sample, by ``readers.tfrecord``."""
    return _run(_TFRECORD, samples, paths=files, indexes=indexes)


def read_caffe(folders: Sequence[Path], samples: int) -> list[Any]:
    """Returns the encoded image, label and decoded shape of each sample, by ``readers.caffe``."""
    return _run(_CAFFE, samples, paths=folders)


def _run(code: str, samples: int, **paths: Sequence[Path]) -> list[Any]:
    named = {name: [os.fspath(path) for path in each] for name, each in paths.items()}
    return printed_json(_PREAMBLE + code, json.dumps({"samples": samples, **named}))
