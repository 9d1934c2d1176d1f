"""Changes of datasets: ``stoker.append``, ``stoker.merge`` and ``stoker.remove``; shards never change."""
