"""The cffi extension that build.py generates: its names are those of the C headers."""

from typing import Any

ffi: Any
lib: Any
