"""Registration: decide by aligned pixels whether two similar pictures are the same picture."""

from heldout.overlap.registration.features import Features, cheap_features
from heldout.overlap.registration.register import Registration, aligned_panel, register

__all__ = ["Features", "Registration", "aligned_panel", "cheap_features", "register"]
