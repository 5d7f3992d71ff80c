"""How large shards are: by the work in them, small at first, so that a small corpus has several.

What a shard holds must depend on the data alone, and the number of files is not known before all are
listed. So the first shards are small, and later ones grow up to a size that is worth the writing of a
shard: three hundred pictures keep several workers busy, and a million do not make a million shards.
"""

from __future__ import annotations

SMALLEST, LARGEST = 2 << 20, 64 << 20  # work in a shard, about bytes
FILE_WORK = 16 << 10  # opening and comparing a picture, in bytes read and decoded
STEP = 8  # shards of one size, before the next are twice as large


def shard_work(index: int) -> int:
    """How much work shard ``index`` of a corpus may hold."""
    return min(SMALLEST << min(index // STEP, 16), LARGEST)
