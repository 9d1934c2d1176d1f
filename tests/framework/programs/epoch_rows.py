"""Prints the rank of this process and the rows of its epoch; run by ranks/test_launchers.py.

python epoch_rows.py SHARDS
"""

from __future__ import annotations

import json
import sys

import stoker
from stoker.augment import Resize
from stoker.pipeline.execution.ranks import find_process

loader = stoker.ImageLoader(
    sys.argv[1], batch_size=4, shuffle=True, columns=("image", "row"), transforms=[Resize((8, 8))]
)
ranks = find_process()
found = {
    "source": ranks.source,
    "rank": ranks.rank,
    "world_size": ranks.world_size,
    "local_world_size": ranks.local_world_size,
    "rows": [batch.row.tolist() for batch in loader],
}
# One write, so that the lines of several ranks do not mix.
sys.stdout.write(json.dumps(found) + "\n")
