"""The shape of data that is kept but not interpreted: a person's own keys, a host's own fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

JsonScalar: TypeAlias = Union[str, int, float, bool, None]
JsonValue: TypeAlias = Union[JsonScalar, Sequence["JsonValue"], Mapping[str, "JsonValue"]]
JsonObject: TypeAlias = dict[str, JsonValue]
