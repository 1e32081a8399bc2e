"""Looking over what all users share: the file system below, and what lies beside the users' folders."""

from __future__ import annotations

import os
from collections.abc import Iterator

from deermem.errors import InvalidInput
from deermem.model.reports import Finding
from deermem.model.scope import safe_user_id
from deermem.service.check import in_order, passed_over, unreachable
from deermem.store.layout import Layout
from deermem.store.network import unsafe_file_system
from deermem.store.strays import root_strays, unreachable_users


def check_store(layout: Layout, folder: str | None) -> list[Finding]:
    """What is to be said of the store as a whole; `folder` narrows what lies below `users/` to one name."""
    return in_order([*_file_systems(layout), *passed_over(root_strays(layout, folder)), *_unreachable(layout, folder)])


def _unreachable(layout: Layout, folder: str | None) -> Iterator[Finding]:
    for path in unreachable_users(layout):
        if folder is None or folder == _folder_of(os.path.basename(path)):
            yield unreachable(path, safe_user_id, "user")


def _folder_of(name: str) -> str:
    try:
        return safe_user_id(name)
    except InvalidInput:
        return ""


def _file_systems(layout: Layout) -> Iterator[Finding]:
    kind = unsafe_file_system(layout.root)
    if kind:
        yield Finding(
            severity="warning",
            code="network-file-system",
            path=str(layout.root),
            message=f"lies on {kind}, where locks and the index's write-ahead log can't be relied on",
            hint="keep the store on a local disk, or let one machine alone write it, with index_root on a local disk",
        )
    index = layout.index_root
    kind = unsafe_file_system(index) if index is not None else ""
    if kind:
        yield Finding(
            severity="warning",
            code="network-file-system",
            path=str(index),
            message=f"the index lies on {kind}, where its write-ahead log can't be relied on",
            hint="set index_root to a folder on a local disk",
        )
