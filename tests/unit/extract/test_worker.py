"""The schedule: each job in its time, each user one at a time, and no thread's end holds anybody up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from builders_extraction import silence

from deermem.extract.worker import Done, Job, Worker

OK = Done(ok=True)


class Jobs:
    """Does what each job's id says, and notes the order; `gate` holds up those that are slow."""

    def __init__(self) -> None:
        self.done: list[Job] = []
        self.gate = threading.Event()
        self.held = threading.Semaphore(0)
        self.most_at_once: dict[str | None, int] = {}
        self._at_work: list[str | None] = []
        self._lock = threading.Lock()

    def __call__(self, job: Job) -> Done:
        with self._lock:
            self._at_work.append(job.folder)
            at_once = self._at_work.count(job.folder)
            self.most_at_once[job.folder] = max(at_once, self.most_at_once.get(job.folder, 0))
        try:
            return self._do(job)
        finally:
            with self._lock:
                self._at_work.remove(job.folder)
                self.done.append(job)

    def _do(self, job: Job) -> Done:
        if job.id.startswith("slow"):
            self.held.release()
            assert self.gate.wait(30)
        if job.id.startswith("ends") and job not in self.done:
            raise SystemExit
        return Done(ok=False) if job.id.startswith("fails") else OK


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def worker(jobs: Jobs, clock) -> Iterator[Worker]:
    made = Worker(jobs, clock)
    yield made
    jobs.gate.set()
    made.stop()


def at_rest(worker: Worker) -> bool:
    return worker.flush(30)


def test_a_user_with_much_to_do_holds_up_nobody_else(worker, jobs, clock):
    """The traps' one timer for all: here each user takes one thread at most, however much is due."""
    for number in range(20):
        worker.put(Job("busy", f"slow{number}"), clock(), urgent=number % 2 == 0)
    assert jobs.held.acquire(timeout=30)
    for user in ("b", "c", None):
        worker.put(Job(user, "quick"), clock())
    while len(jobs.done) < 3:
        jobs.held.acquire(timeout=0.01)
    assert {job.folder for job in jobs.done} == {"b", "c", None}
    jobs.gate.set()
    assert at_rest(worker)
    assert jobs.most_at_once["busy"] == 1
    assert len(jobs.done) == 23


def test_steady_traffic_of_others_puts_no_job_off(worker, jobs, clock):
    """Each job keeps the time that it was given."""
    worker.put(Job("patient", "one"), clock.now.replace(minute=5))
    for number in range(100):
        clock.advance(seconds=4)
        worker.put(Job(f"u{number % 7}", f"n{number}"), clock.now.replace(hour=13))
    while not jobs.done:
        jobs.held.acquire(timeout=0.01)
    assert jobs.done == [Job("patient", "one")]


def test_urgent_jobs_go_first(worker, jobs, clock):
    worker.put(Job("a", "slow"), clock())
    assert jobs.held.acquire(timeout=30)
    worker.put(Job("a", "due"), clock.advance(seconds=-60))
    worker.put(Job("a", "urgent"), clock.advance(seconds=120), urgent=True)
    jobs.gate.set()
    assert at_rest(worker)
    assert [job.id for job in jobs.done] == ["slow", "urgent", "due"]


def test_a_thread_that_ends_leaves_its_job_and_the_others(worker, jobs, clock, monkeypatch):
    silence(monkeypatch, SystemExit)
    later = clock() + timedelta(hours=1)
    for user in "abcdef":
        worker.put(Job(user, "ends"), later)
        worker.put(Job(user, "other"), later)
    assert not at_rest(worker)
    assert at_rest(worker)
    assert sorted(set(jobs.done)) == sorted(Job(user, name) for user in "abcdef" for name in ("ends", "other"))


def test_without_threads_a_flush_returns_and_nothing_is_raised(worker, jobs, clock, monkeypatch, caplog):
    """As at the end of the interpreter: what was put lies on disk, and must not look as if it had failed."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    worker.put(Job("a", "one"), clock(), urgent=True)
    assert not worker.flush(None)
    assert "interpreter shutdown" in caplog.text
    monkeypatch.undo()
    assert at_rest(worker)
    assert jobs.done == [Job("a", "one")]


def test_stopping_ends_every_flush(worker, jobs, clock):
    """153: whatever time it was given."""
    worker.put(Job("a", "slow"), clock())
    worker.put(Job("a", "never"), clock())
    assert jobs.held.acquire(timeout=30)
    said: list[bool] = []
    flush = threading.Thread(target=lambda: said.append(worker.flush(None)))
    flush.start()
    while not worker._flushes:
        flush.join(0.01)
    worker.stop()
    jobs.gate.set()
    flush.join(30)
    assert (said, jobs.done) == ([False], [Job("a", "slow")])


def test_a_date_in_thousands_of_years_is_slept_over(worker, jobs, clock):
    worker.put(Job("a", "far"), datetime(9999, 12, 31, tzinfo=UTC))
    worker.put(Job("b", "now"), clock())
    while not jobs.done:
        jobs.held.acquire(timeout=0.01)
    assert jobs.done == [Job("b", "now")]
    assert at_rest(worker)


@pytest.mark.parametrize(("name", "done"), [("one", True), ("fails", False)])
def test_a_flush_says_whether_all_was_done(worker, clock, name, done):
    """153."""
    assert worker.flush(None)
    worker.put(Job("a", name), clock.now.replace(hour=13))
    worker.put(Job("b", "other"), clock.now.replace(hour=13))
    assert worker.flush(30) is done
    assert worker.flush(0)
