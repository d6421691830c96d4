"""Find a smaller call that fails the same way."""

from gmmfr.shrinking.search import Shrunk, shrink

__all__ = ["Shrunk", "shrink"]
