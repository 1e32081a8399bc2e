"""What of each conversation was queued already, which the host then drops without a loss."""

from __future__ import annotations

import threading
from bisect import bisect_left
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

    def beyond(self, scope: Scope, thread: str, messages: Iterable[object]) -> list[object]:
        """These messages from the first turn on that was not queued, with what it answers; none where every turn was.

        Raises InvalidInput for what can't be messages.
        """
        all_of_them = list(messages)
        with self._lock:
            known = self._keys.get((scope.user_folder, scope.agent, str(thread)), frozenset())

        def is_new(end: int) -> bool:
            return not self._of(all_of_them[:end]) <= known

        # The turns of the front are those of the front alone, so that one that is new stays so in more.
        places = range(1, len(all_of_them) + 1)
        start = bisect_left(places, True, key=is_new)
        while start and self._roles(all_of_them[start:]) == {"assistant"}:
            start -= 1
        return all_of_them[start:]

    def _roles(self, messages: Iterable[object]) -> set[str]:
        return {turn.role for turn in read_turns(messages, keep_hidden=self._keep_hidden)}

    def _of(self, messages: Iterable[object]) -> frozenset[str]:
        return frozenset(turn.key for turn in read_turns(messages, keep_hidden=self._keep_hidden))
