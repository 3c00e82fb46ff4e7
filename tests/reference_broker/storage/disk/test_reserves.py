"""A reserve is set aside for every use of file descriptors, no matter how low the limit is.

Method: check the reserves at several limits.
"""

import pytest

from kafkawire.reference_broker.storage.disk.reserves import few_connections, kept_for_files, kept_from_logs


@pytest.mark.parametrize(
    ("limit", "for_files", "from_logs", "few"),
    [
        (16, 4, 2, 1),
        (60, 15, 7, 3),
        (64, 16, 8, 4),
        (100, 25, 12, 6),
        (200, 32, 16, 8),
        (256, 32, 16, 8),
        (1_024, 128, 64, 32),
        (10_000, 1_024, 512, 256),
        (2**20, 1_024, 512, 256),
    ],
)
def test_reserves(limit, for_files, from_logs, few):
    assert (kept_for_files(limit), kept_from_logs(limit), few_connections(limit)) == (for_files, from_logs, few)
