"""JSON as an import gets it: every way in which it can be wrong is an InvalidInput that says where."""

from __future__ import annotations

import json

from deermem.errors import InvalidInput
from deermem.model.values import JsonObject, JsonValue


def load_json(text: str) -> JsonValue:
    """The value; raises InvalidInput with line and column, and for a key that stands twice in one object."""
    try:
        value: JsonValue = json.loads(text, object_pairs_hook=_object)
    except InvalidInput:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"not valid JSON at {where}: {error.msg}", hint="mend it there") from None
    except (RecursionError, ValueError) as error:
        raise InvalidInput(f"it can't be read as JSON: {error}", hint="give a document as it was exported") from None
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    """Of two values of one key, JSON readers silently take the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput(f"the key {key!r:.80} twice in one object", hint="keep one of the two")
    return found
