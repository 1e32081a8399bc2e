"""Each user of the old store ends as the release that wrote it would end, or stops where it would stop."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders_v1 import FolderFiles, MemoryFiles

from deermem.clock import format_timestamp
from deermem.errors import (
    BackupMismatch,
    Corruption,
    DeerMemError,
    MigrationError,
    SummaryConflict,
    UnexpectedFiles,
)
from deermem.format import manifest, markdown
from deermem.format.paths import fact_path
from deermem.migrate.legacy import UserFiles, needs_migration, stored_facts
from deermem.migrate.place import UserPlace
from deermem.migrate.plan import UserPlan, plan_user
from deermem.model.fact import Fact

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
STOPS = {
    ("nina", "writer"): (SummaryConflict, ["agents/writer/memory.json", "workContext"]),
    ("quinn", "__default__"): (MigrationError, ["quinn/memory.json", "fact_q2", "confidence 7", "0 to 1"]),
    ("rob", "__default__"): (Corruption, ["rob/memory.json", "line 1 column 49"]),
    ("sam", "__default__"): (MigrationError, ["migration conflict", "fact_s1"]),
    ("tia", "__default__"): (BackupMismatch, ["tia/memory.json.v1.bak"]),
    ("wes", "__default__"): (UnexpectedFiles, ["wes/agents/lead-agent", "notes.txt"]),
    ("yan", "__default__"): (MigrationError, ["fact_y1", "contentHash", "sha256:0000"]),
    ("zoe", "__default__"): (MigrationError, ["fact_z1", "escapes", "../../reviewer/memory.json"]),
}


@pytest.fixture(scope="module")
def store(shared: Path) -> Path:
    return shared / "fixtures" / "deerflow-v1" / "users"


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, dict[str, dict[str, object]]]:
    text = (shared / "fixtures" / "deerflow-v1.expected.json").read_text("utf-8")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


@pytest.fixture(params=["memory", "folder"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def files_of(user: Path, kind: str, tmp_path: Path) -> MemoryFiles | FolderFiles:
    if kind == "folder":
        return FolderFiles(Path(shutil.copytree(user, tmp_path / user.name)))
    paths = [path for path in user.rglob("*") if path.is_file()]
    return MemoryFiles({path.relative_to(user).as_posix(): path.read_bytes() for path in paths})


def carried_out(plan: UserPlan, files: UserFiles, kind: str) -> MemoryFiles:
    """The folder as the plan leaves it; every `before` is compared with what lies there."""
    after = MemoryFiles(dict(files.files)) if isinstance(files, MemoryFiles) else MemoryFiles()
    if isinstance(files, FolderFiles):
        paths = [path for path in files.folder.rglob("*") if path.is_file()]
        after = MemoryFiles({path.relative_to(files.folder).as_posix(): path.read_bytes() for path in paths})
    for backup in plan.backups:
        assert after.files[backup.source] == backup.data
        after.files[backup.path] = backup.data
    for change in plan.changes:
        assert after.files.pop(change.path, None) == change.before
        if change.after is not None:
            after.files[change.path] = change.after
    assert after.files.pop("memory.json", None) == plan.manifest_before
    if plan.manifest_after is not None:
        after.files["memory.json"] = plan.manifest_after
    return after


def as_expected(fact: Fact) -> dict[str, object]:
    item: dict[str, object] = {
        "id": fact.id,
        "category": fact.category,
        "confidence": fact.confidence,
        "content": fact.content,
        "createdAt": format_timestamp(fact.created_at),
        "source": {"type": fact.source.type, "threadId": fact.source.thread_id},
        "sourceError": fact.source_error,
        "expected_valid_days": fact.expected_valid_days,
    }
    return {key: value for key, value in item.items() if value is not None}


def normalized(item: dict[str, object], now: str) -> dict[str, object]:
    extension = item.pop("categoryExtension", None)
    item["category"] = extension or item.get("category", "context")
    if item["createdAt"] == "<now>":
        item["createdAt"] = now
    return item


def summaries_of(files: MemoryFiles) -> dict[str, dict[str, str]]:
    found = manifest.decode(files.files["memory.json"]).summaries
    groups = {"user": found.user, "history": found.history}
    return {name: {key: text.summary for key, text in group.items() if text.summary} for name, group in groups.items()}


def test_every_bucket_ends_as_expected(
    store: Path, expected: dict[str, dict[str, dict[str, object]]], kind: str, tmp_path: Path
) -> None:
    checked = 0
    for user, buckets in expected.items():
        files = files_of(store / user, kind, tmp_path)
        place = UserPlace(folder=user, user_id=user)
        for agent, wanted in buckets.items():
            if "stops" in wanted:
                assert (user, agent) in STOPS
                continue
            plan = plan_user(files, place, now=NOW, only_agent=agent)
            after = carried_out(plan, files, kind)
            facts = [item.fact for item in stored_facts(after, agent, NOW) if item.fact is not None]
            found = {fact.id: as_expected(fact) for fact in facts}
            assert summaries_of(after) == wanted["summaries"], (user, agent)
            listed = wanted["facts"]
            assert isinstance(listed, list)
            for item in listed:
                fact = normalized(dict(item), format_timestamp(NOW))
                if fact["id"] == "<generated>":
                    fact["id"] = next(name for name, other in found.items() if other["content"] == fact["content"])
                assert found.pop(str(fact["id"])) == fact, (user, agent)
            assert not found, (user, agent)
            assert all(fact.user_id == user and fact.agent_name == agent for fact in facts), (user, agent)
            assert plan_user(after, place, now=NOW, only_agent=agent).outcome == "current", (user, agent)
            assert not needs_migration(after, place, only_agent=agent)
            checked += 1
    assert checked == 11


@pytest.mark.parametrize(("user", "agent"), STOPS)
def test_bad_sources_stop_with_a_message_that_names_them(
    store: Path, user: str, agent: str, kind: str, tmp_path: Path
) -> None:
    error, words = STOPS[user, agent]
    files = files_of(store / user, kind, tmp_path)
    place = UserPlace(folder=user, user_id=user)
    with pytest.raises(error) as caught:
        plan_user(files, place, now=NOW, only_agent=agent)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(error):
        plan_user(files, place, now=NOW)
    try:
        assert needs_migration(files, place, only_agent=agent)
    except DeerMemError as stop:
        assert type(stop) is error  # noqa: PT017


def test_whole_user_migrates_every_bucket_at_once(store: Path, kind: str, tmp_path: Path) -> None:
    files = files_of(store / "mei", kind, tmp_path)
    plan = plan_user(files, UserPlace(folder="mei"), now=NOW)
    assert plan.facts == 5
    assert [backup.path for backup in plan.backups] == ["memory.json.v1.bak", "agents/coder/memory.json.v1.bak"]
    created = {change.path for change in plan.changes if change.after is not None}
    names = [("__default__", "fact_a1"), ("__default__", "fact_a2"), ("__default__", "fact_a3")]
    assert created == {fact_path(*name) for name in [*names, ("coder", "fact_c1"), ("coder", "fact_c2")]}
    removed = [change.path for change in plan.changes if change.after is None]
    assert removed == ["agents/coder/memory.json"]


def test_extra_keys_of_a_v1_fact_are_kept(store: Path, tmp_path: Path) -> None:
    plan = plan_user(files_of(store / "pat", "memory", tmp_path), UserPlace(folder="pat"), now=NOW)
    written = {change.path: change.after for change in plan.changes}
    data = written[fact_path("__default__", "fact_p7")]
    assert data is not None
    fact = markdown.decode(data, stem="fact_p7", when=NOW).fact
    assert fact.extra == {"pinned": True, "tags": ["x", "y"]}
    assert fact.topics == ()


def test_summary_times_are_kept_and_the_revision_grows(store: Path, tmp_path: Path) -> None:
    plan = plan_user(files_of(store / "reviewer", "memory", tmp_path), UserPlace(folder="reviewer"), now=NOW)
    assert plan.manifest_after is not None
    summaries = manifest.decode(plan.manifest_after).summaries
    assert summaries.work_context.updated_at == "2026-03-28T10:30:00Z"
    assert summaries.revision == 1
    assert set(json.loads(plan.manifest_after)) == {"version", "revision", "lastUpdated", "user", "history"}


def test_a_store_of_version_2_is_current(shared: Path, kind: str, tmp_path: Path) -> None:
    users = shared / "fixtures" / "deerflow-v2" / "users"
    for user in sorted(users.iterdir()):
        files = files_of(user, kind, tmp_path)
        place = UserPlace(folder=user.name)
        assert not needs_migration(files, place)
        plan = plan_user(files, place, now=NOW)
        assert (plan.outcome, plan.changes, plan.backups) == ("current", (), ())
        assert plan.manifest_after == plan.manifest_before == files.read("memory.json")
