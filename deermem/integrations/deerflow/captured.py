"""What of each conversation was queued already, which the host then drops without a loss."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from deermem.extract.messages import KeepHidden, read_turns
from deermem.model.scope import Scope

_CONVERSATIONS: Final = 1000
"""So many, those used last; what is forgotten is only read once more."""


class Captured:
    """The keys of the turns that this process queued, never their text. Safe for threads.

    What was extracted since is not read again because the host drops it: that would bring back a fact
    which a person deleted meanwhile, or all that they cleared.
    """

    def __init__(self, keep_hidden: KeepHidden | None) -> None:
        self._keep_hidden = keep_hidden
        self._keys: OrderedDict[tuple[str | None, str, str], frozenset[str]] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, scope: Scope, thread: str, messages: Iterable[object]) -> None:
        """All of a conversation, as it stands now, was queued."""
        conversation = (scope.user_folder, scope.agent, thread)
        keys = self._of(messages)
        with self._lock:
            self._keys[conversation] = keys
            self._keys.move_to_end(conversation)
            while len(self._keys) > _CONVERSATIONS:
                self._keys.popitem(last=False)

    def holds(self, scope: Scope, thread: str, messages: Iterable[object]) -> bool:
        """Whether every turn of these messages was queued. Raises InvalidInput for what can't be messages."""
        with self._lock:
            known = self._keys.get((scope.user_folder, scope.agent, str(thread)))
        return known is not None and self._of(messages) <= known

    def _of(self, messages: Iterable[object]) -> frozenset[str]:
        return frozenset(turn.key for turn in read_turns(messages, keep_hidden=self._keep_hidden))
