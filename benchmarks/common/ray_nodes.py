"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def ray_nodes(number: int) -> Iterator[Any]:
    """Start Ray nodes as processes of this machine, join them, and end them all."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix='r', dir='/tmp')  # noqa: S108  Its sockets need a short path.
    (Path(folder) / 'ray').mkdir()
    before = dict(os.environ)
    os.environ |= {
        'PYTHONPATH': os.pathsep.join(filter(None, sys.path)),
        'RAY_TMPDIR': folder,
        'RAY_AUTH_MODE': 'disabled',
        'RAY_USAGE_STATS_ENABLED': '0',
    }
    options = {'num_cpus': 1, 'object_store_memory': 80_000_000, 'include_dashboard': False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    try:
        for _ in range(number - 1):
            cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        ray.init(cluster.address, log_to_driver=False, logging_level='ERROR')
        yield cluster
        serve.shutdown()
    finally:
        ray.shutdown()
        cluster.shutdown()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)
