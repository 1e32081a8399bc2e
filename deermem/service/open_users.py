"""Which users are open: the least recently used closes, each is opened once, and a forked child begins anew."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deermem.errors import DeerMemError
from deermem.service.user import UserContext

_OPEN_USERS: Final = 64
_inherited: Final[list[object]] = []


class OpenUsers:
    """The users of one root by id. `open_user` opens one, by id or by its folder's name."""

    def __init__(self, open_user: Callable[[str | None], UserContext]) -> None:
        self._open = open_user
        self._lock = threading.Lock()
        self._users: OrderedDict[str | None, UserContext] = OrderedDict()
        self._closed = False

    def get(self, user_id: str | None) -> UserContext:
        """One user, opened; the least recently used of 64 is closed."""
        with self._lock:
            if self._closed:
                raise DeerMemError("the engine is closed", hint="open a new one")
            found = self._users.pop(user_id, None) or self._open(user_id)
            self._users[user_id] = found
            idle = self._users.popitem(last=False)[1] if len(self._users) > _OPEN_USERS else None
        if idle is not None:
            idle.close()
        return found

    @contextmanager
    def visit(self, folder: str | None, place: Path) -> Iterator[UserContext]:
        """A user by its folder's name: as it is open already, else for this time only, so that nobody is displaced."""
        with self._lock:
            found = next((user for user in self._users.values() if user.paths.folder == place), None)
        if found is not None:
            yield found
            return
        yield from self.each([folder])

    def each(self, folders: Iterable[str | None]) -> Iterator[UserContext]:
        """One after the other, each closed behind, so that ten thousand cost the files of one."""
        for folder in folders:
            user = self._open(folder)
            try:
                yield user
            finally:
                user.close()

    def close(self) -> None:
        """Closes all; none opens any more."""
        with self._lock:
            self._closed = True
            users, self._users = self._users, OrderedDict()
        # Outside the lock: an adapter that hangs must not hold up the engine.
        for user in users.values():
            user.close()

    def start_over(self) -> None:
        """In a forked child: the parent's connections and locks stay the parent's."""
        _inherited.append(self._users)
        self._users = OrderedDict()
        self._lock = threading.Lock()
