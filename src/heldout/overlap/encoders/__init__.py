"""Encoders: a picture in, a unit vector out. Close vectors are candidates, never proof."""

from heldout.overlap.encoders.embed import Embedded, embed_shard
from heldout.overlap.encoders.encoder import Encoder, Preprocessing, require_same
from heldout.overlap.encoders.open import open_encoder
from heldout.overlap.encoders.saved import (
    SavedEmbeddings,
    read_identity,
    save_shard,
)
from heldout.overlap.encoders.views import POSES, views

__all__ = [
    "POSES",
    "Embedded",
    "Encoder",
    "Preprocessing",
    "SavedEmbeddings",
    "embed_shard",
    "open_encoder",
    "read_identity",
    "require_same",
    "save_shard",
    "views",
]
