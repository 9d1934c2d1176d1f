"""Changes of datasets: ``stoker.append``, ``stoker.merge`` and ``stoker.exclude``; shards never change."""
