"""`DeerMemStore`: LangGraph's long-term memory as Markdown files that a person can read and edit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from deermem.config import Settings
from deermem.engine import DeerMem
from deermem.errors import DeerMemError, InvalidInput
from deermem.integrations.langgraph_store.blocks import Block
from deermem.integrations.langgraph_store.buckets import Bucket, check_put
from deermem.integrations.langgraph_store.checks import (
    check_op,
    checked_index,
    checked_key,
    checked_ttl_config,
    labels_of,
    minutes,
    page,
    says_closed,
    whole,
)
from deermem.integrations.langgraph_store.filters import Test, parse_filter
from deermem.integrations.langgraph_store.finding import found_by
from deermem.integrations.langgraph_store.names import Namespace
from deermem.integrations.langgraph_store.places import Places, fits
from deermem.integrations.langgraph_store.sweeping import Sweeper
from deermem.integrations.langgraph_store.values import Meta, Put, checked_value, read_value, topics_of
from deermem.model.fact import Fact

_SWEEP_MINUTES: Final = 5
_Hit = tuple[Bucket, str, Fact, float | None]


class DeerMemStore(BaseStore):
    """A `BaseStore` over an engine: one item is one Markdown file, one namespace the facts of one agent.

    `user_id` owns all items (None: the no-user root); with `user_at`, the label at that place of a namespace names
    the user instead, so that `engine.clear(user)` and the user's own lock and index are theirs. `fields` are the
    paths that a query looks at where a put names none. Safe for threads, processes and a running event loop.

    Raises InvalidInput for an engine with a cap, which would evict items: open it with `Settings(max_facts=0)`.
    """

    supports_ttl = True

    def __init__(
        self,
        engine: DeerMem,
        user_id: str | None = None,
        *,
        user_at: int | None = None,
        ttl: TTLConfig | None = None,
        fields: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(engine, DeerMem):
            raise InvalidInput(f"the engine is {engine!r:.60}", hint="give a DeerMem, or use DeerMemStore.open(root)")
        if engine.settings.max_facts:
            hint = "a full bucket would lose items; open an engine of its own: DeerMem(root, Settings(max_facts=0))"
            raise InvalidInput(f"the engine keeps {engine.settings.max_facts} facts of an agent", hint=hint)
        if user_at is not None and (isinstance(user_at, bool) or not isinstance(user_at, int) or user_at < 0):
            raise InvalidInput(f"user_at is {user_at!r:.40}", hint="give the place of a label, 0 for the first")
        if user_id is not None or user_at is None:
            engine.memory(user_id)
        self.ttl_config = checked_ttl_config(ttl)
        # The letters of a text would be paths.
        self._fields = checked_index(fields if fields is None or isinstance(fields, str) else list(fields))
        self._places = Places(engine, user_id, user_at)
        self._sweeper = Sweeper(self.sweep_ttl)

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str] | None = None,
        user_id: str | None = None,
        *,
        user_at: int | None = None,
        ttl: TTLConfig | None = None,
        fields: Sequence[str] | None = None,
    ) -> Block[DeerMemStore]:
        """A store with an engine of its own, for a `with` or `async with` block; `root` as `DeerMem` takes it."""

        @contextmanager
        def opened() -> Generator[DeerMemStore]:
            with DeerMem(root, Settings(max_facts=0)) as engine:
                store = cls(engine, user_id, user_at=user_at, ttl=ttl, fields=fields)
                try:
                    yield store
                finally:
                    store.stop_ttl_sweeper()

        return Block(opened())

    # --- the two methods that all others of BaseStore go through

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results in the order of the operations; all reads see what was there before the batch.

        The puts and deletes of one namespace are one commit, and the last of a key counts. Every operation is
        checked before anything is written. Raises InvalidNamespaceError and InvalidInput, both ValueErrors;
        Corruption for an item whose file can't be read; LockTimeout and StoreUnavailable.
        """
        asked = list(ops)
        for op in asked:
            check_op(op)
        puts = self._puts(asked)
        tests = [parse_filter(op.filter) if isinstance(op, SearchOp) else None for op in asked]
        results = [self._read(op, test) for op, test in zip(asked, tests, strict=True)]
        for namespace, changes in puts.items():
            self._places.bucket(namespace).change(changes)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, in a thread, so that no disk holds up the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    # --- items whose time is over

    def sweep_ttl(self) -> int:
        """Deletes the files of items whose time is over, and says how many; nothing serves them before that either.

        Raises what the first namespace raised that could not be swept, once all others are.
        """
        gone = 0
        failed: list[DeerMemError] = []
        for bucket in self._places.readable(failed):
            try:
                gone += bucket.sweep()
            except DeerMemError as error:
                # A namespace whose user somebody else is writing for must not keep the others waiting.
                failed.append(error)
        if failed:
            raise next(filter(says_closed, failed), failed[0])
        return gone

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Calls `sweep_ttl` again and again in a thread; the interval of the ttl configuration, else 5 minutes."""
        configured = self.ttl_config.get("sweep_interval_minutes") if self.ttl_config else None
        interval = configured or _SWEEP_MINUTES if sweep_interval_minutes is None else sweep_interval_minutes
        self._sweeper.start(minutes(interval, "sweep_interval_minutes"))

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Ends that thread and waits for it, for `timeout` seconds at most; whether it has ended."""
        return self._sweeper.stop(timeout)

    # --- reading

    def _read(self, op: Op, test: Test | None) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op, test or parse_filter(None))
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _get(self, op: GetOp) -> Item | None:
        bucket = self._places.bucket(labels_of(op.namespace))
        key = checked_key(op.key)
        fact = bucket.get(key)
        value = read_value(fact) if fact is not None else None
        if fact is None or value is None:
            return None
        if op.refresh_ttl:
            bucket.refresh([fact])
        return Item(
            value=value,
            key=key,
            namespace=bucket.namespace,
            created_at=fact.created_at,
            updated_at=Meta.of(fact).updated_at or fact.updated_at,
        )

    def _search(self, op: SearchOp, test: Test) -> list[SearchItem]:
        offset, limit = whole(op.offset, "offset"), whole(op.limit, "limit")
        prefix = labels_of(op.namespace_prefix)
        if op.query is not None and not isinstance(op.query, str):
            raise InvalidInput(f"the query is {op.query!r:.60}", hint="give text")
        hits = self._ranked(prefix, op.query) if op.query and op.query.strip() else self._listed(prefix)
        passing = (hit for hit in hits if op.filter is None or test(hit[0].listings.look(hit[0].agent, hit[2])))
        shown_hits = list(page(passing, offset, limit))
        if op.refresh_ttl:
            shown: dict[Namespace, list[Fact]] = {}
            for bucket, _, fact, _ in shown_hits:
                shown.setdefault(bucket.namespace, []).append(fact)
            for namespace, facts in shown.items():
                self._places.bucket(namespace).refresh(facts)
        return [_item(hit) for hit in shown_hits]

    def _listed(self, prefix: Namespace) -> Iterator[_Hit]:
        """The items below a prefix, by namespace, the older first."""
        reading = self._places.reading(prefix)
        for bucket in self._places.below(prefix, reading):
            nothing: Sequence[tuple[str, Fact]] = ()
            for key, fact in reading.of(bucket.user_id, bucket.items, nothing):
                yield bucket, key, fact, None

    def _ranked(self, prefix: Namespace, query: str) -> Iterator[_Hit]:
        """The items that a query finds, best first."""
        users: dict[str | None, dict[str, Bucket]] = {}
        reading = self._places.reading(prefix)
        for bucket in self._places.below(prefix, reading):
            users.setdefault(bucket.user_id, {})[bucket.agent] = bucket
        hits: list[tuple[Bucket, str, Fact, float]] = []
        for user_id, buckets in users.items():
            hits += reading.of(user_id, partial(found_by, query, buckets), [])
        yield from sorted(hits, key=lambda hit: -hit[3])

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        offset, limit = whole(op.offset, "offset"), whole(op.limit, "limit")
        depth = None if op.max_depth is None else whole(op.max_depth, "max_depth")
        conditions = op.match_conditions or ()
        first = next((labels_of(each.path) for each in conditions if each.match_type == "prefix"), ())
        fixed = first[: first.index("*")] if "*" in first else first
        reading = self._places.reading(fixed)
        found = (
            bucket.namespace[:depth]
            for bucket in self._places.below(fixed, reading)
            if all(fits(condition, bucket.namespace) for condition in conditions)
            and not reading.of(bucket.user_id, bucket.is_empty, True)
        )
        # They come in order, so that equal ones stand together.
        distinct = (namespace for namespace, before in _with_previous(found) if namespace != before)
        return list(page(distinct, offset, limit))

    # --- writing

    def _puts(self, ops: Sequence[Op]) -> dict[Namespace, dict[str, Put | None]]:
        """The last put or delete of each key, by namespace, checked."""
        puts: dict[Namespace, dict[str, Put | None]] = {}
        for op in ops:
            if isinstance(op, PutOp):
                namespace = labels_of(op.namespace)
                if not namespace:
                    raise InvalidNamespaceError("Namespace cannot be empty.")
                # The time is that of the user, so that a user who can have no folder is refused here too.
                now = self._places.bucket(namespace).now()
                key = checked_key(op.key)
                puts.setdefault(namespace, {})[key] = self._put(namespace, key, op, now)
            elif not isinstance(op, (GetOp, SearchOp, ListNamespacesOp)):
                raise InvalidInput(f"Unknown operation type: {type(op).__name__}", hint="give operations of a store")
        return puts

    def _put(self, namespace: Namespace, key: str, op: PutOp, now: datetime) -> Put | None:
        if op.value is None:
            return None
        if not isinstance(op.value, Mapping):
            raise InvalidInput(f"the value of {key!r:.60} is {op.value!r:.60}", hint="give a mapping")
        value = checked_value(op.value)
        assert isinstance(value, dict)
        fields = self._fields if op.index is None else checked_index(op.index)
        put = Put(
            namespace=namespace,
            key=key,
            value=value,
            ttl=None if op.ttl is None else minutes(op.ttl, "ttl"),
            fields=fields,
            topics=topics_of(value, fields),
        )
        check_put(put, now)
        return put


def _item(hit: _Hit) -> SearchItem:
    bucket, key, fact, score = hit
    return SearchItem(
        namespace=bucket.namespace,
        key=key,
        value=dict(read_value(fact) or {}),
        created_at=fact.created_at,
        updated_at=Meta.of(fact).updated_at or fact.updated_at,
        score=score,
    )


def _with_previous(namespaces: Iterable[Namespace]) -> Iterator[tuple[Namespace, Namespace | None]]:
    before: Namespace | None = None
    for namespace in namespaces:
        yield namespace, before
        before = namespace
