"""The observer of folders: it ends without a word."""

from __future__ import annotations

import logging

import pytest
from watchdog.utils import BaseThread

from deermem.watch.observer import follow

EVENTS_LOG = logging.getLogger("watchdog.observers.inotify")


@pytest.fixture
def observation(tmp_path):
    observation = follow([str(tmp_path)], lambda event: None)
    yield observation
    observation.stop(10)


def test_a_thread_that_was_told_to_end_says_nothing_more(observation, caplog):
    class Late(BaseThread):
        def run(self) -> None:
            EVENTS_LOG.error("before the end")
            self.stop()
            EVENTS_LOG.error("called when the thread is inactive")

    late = Late()
    late.start()
    late.join()
    EVENTS_LOG.error("of somebody else")
    assert caplog.messages == ["before the end", "of somebody else"]


def test_it_is_alive_until_it_is_stopped_and_stopped_more_than_once(observation):
    assert observation.alive
    observation.stop(10)
    observation.stop(10)
    assert not observation.alive
