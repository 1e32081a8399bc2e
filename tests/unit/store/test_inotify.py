"""The kernel's word: told of every save, and silent rather than wrong."""

from __future__ import annotations

import os
import sys

import pytest

from deermem.store.fingerprints import is_local
from deermem.store.inotify import MAX_WATCHERS, FolderWatch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")


@pytest.fixture
def facts(tmp_path):
    folder = tmp_path / "facts"
    (folder / "ab").mkdir(parents=True)
    (folder / "ab" / "one.md").write_text("one")
    if not is_local(os.stat(folder).st_dev):
        pytest.skip("the kernel's word is not certain on this file system")
    return folder


@pytest.fixture
def watch(facts):
    started = FolderWatch.start(str(facts))
    assert started is not None
    yield started
    started.close()


def test_nothing_happened(watch):
    assert watch.drain() == set()


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (lambda f: (f / "ab" / "one.md").write_text("two"), {"ab/one.md"}),
        (lambda f: (f / "new.md").write_text("new"), {"new.md"}),
        (lambda f: (f / "ab" / "one.md").unlink(), {"ab/one.md"}),
        (lambda f: (f / "ab" / "one.md").rename(f / "two.md"), {"ab/one.md", "two.md"}),
        (lambda f: os.utime(f / "ab" / "one.md", (1, 1)), {"ab/one.md"}),
        (lambda f: os.truncate(f / "ab" / "one.md", 0), {"ab/one.md"}),
        (lambda f: (f / "ab" / ".#one.md").write_text("an editor's lock"), set()),
        (lambda f: (f / "ab" / "one.md~").write_text("an editor's backup"), set()),
    ],
)
def test_each_kind_of_save_is_told(facts, watch, act, told):
    act(facts)
    assert watch.drain() == told
    assert watch.drain() == set()


def test_a_save_the_way_an_editor_does_it(facts, watch):
    (facts / "ab" / "one.tmp").write_text("two")
    os.replace(facts / "ab" / "one.tmp", facts / "ab" / "one.md")
    assert watch.drain() == {"ab/one.md"}


def test_new_folders_are_followed_with_what_is_in_them_already(facts, watch):
    (facts / "cd" / "deep").mkdir(parents=True)
    (facts / "cd" / "deep" / "two.md").write_text("two")
    assert watch.drain() == {"cd/", "cd/deep/two.md"}
    (facts / "cd" / "deep" / "two.md").write_text("three")
    assert watch.drain() == {"cd/deep/two.md"}


def test_a_folder_moved_in_brings_its_files(facts, watch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "three.md").write_text("three")
    (tmp_path / "elsewhere").rename(facts / "moved")
    assert watch.drain() == {"moved/", "moved/three.md"}


def test_a_removed_folder_names_its_files(facts, watch):
    (facts / "ab" / "one.md").unlink()
    (facts / "ab").rmdir()
    assert watch.drain() == {"ab/one.md"}


def test_a_folder_moved_out_is_a_doubt(facts, watch, tmp_path):
    (facts / "ab").rename(tmp_path / "gone")
    assert watch.drain() is None


def test_another_folder_in_its_place_is_a_doubt(facts, watch, tmp_path):
    facts.rename(tmp_path / "old")
    facts.mkdir()
    assert watch.drain() is None


def test_a_moved_ancestor_is_a_doubt(facts, watch, tmp_path):
    (tmp_path / "other").mkdir()
    facts.parent.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    try:
        assert watch.drain() is None
    finally:
        tmp_path.with_name(f"{tmp_path.name}-moved").rename(tmp_path)


def test_an_overflowing_queue_is_a_doubt(facts, watch):
    with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as limit:
        events = int(limit.read())
    if events > 100_000:
        pytest.skip("the queue of this machine is too long to overflow here")
    one, two = facts / "a.md", facts / "b.md"
    one.write_text("x")
    for _ in range(events // 2 + 10):
        one.rename(two)
        two.rename(one)
    assert watch.drain() is None


def test_a_forked_child_leaves_the_events_to_its_parent(facts, watch):
    (facts / "new.md").write_text("new")
    child = os.fork()
    if child == 0:
        os._exit(0 if watch.drain() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert watch.drain() == {"new.md"}


def test_there_is_a_limit_to_how_many_are_open(facts):
    started = [FolderWatch.start(str(facts)) for _ in range(MAX_WATCHERS + 5)]
    try:
        assert started[-1] is None
        assert started[0] is not None
    finally:
        for watch in started:
            if watch is not None:
                watch.close()
    again = FolderWatch.start(str(facts))
    assert again is not None
    again.close()


def test_a_missing_folder_is_not_watched(tmp_path):
    assert FolderWatch.start(str(tmp_path / "nowhere")) is None
