"""`BackgroundJobs` run one at a time, wait without blocking, and fail without affecting each other.

Method: use jobs that record their steps, and background work that the test releases or that happens immediately.
"""

import pytest

from kafkawire.reference_broker.storage.cleaning.background_jobs import BackgroundJobs, in_background
from kafkawire.reference_broker.work.background import at_once
from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from tests.reference_broker.storage.held_work import HeldWork


def fail(error):
    raise error


def job(steps, name, told, pieces=2):
    for number in range(pieces):
        told.append((yield in_background(steps, lambda number=number: f"{name}{number}")))


def test_one_job_after_the_other():
    work, told = HeldWork(), []
    jobs = BackgroundJobs()
    steps = BackgroundQueue(work)
    jobs.add(job(steps, "a", told), fail)
    jobs.add(job(steps, "b", told), fail)
    assert (told, len(work.pending)) == ([], 1)
    work.run(1)
    assert told == ["a0"]
    work.run()
    assert told == ["a0", "a1", "b0", "b1"]
    jobs.add(job(steps, "c", told), fail)
    work.run()
    assert told[4:] == ["c0", "c1"]


def test_long_job_that_never_waits_needs_no_deep_stack():
    told = []
    jobs = BackgroundJobs()
    jobs.add(job(BackgroundQueue(at_once), "a", told, 10_000), fail)
    assert len(told) == 10_000


@pytest.mark.parametrize("background", [at_once, HeldWork()])
def test_failure_is_reported_and_the_next_job_runs(background):
    told, failed = [], []
    steps = BackgroundQueue(background)
    jobs = BackgroundJobs()

    def failing():
        yield in_background(steps, lambda: 1 // 0)
        told.append("never")

    def surviving():
        try:
            yield in_background(steps, lambda: 1 // 0)
        except ZeroDivisionError:
            told.append("caught")

    jobs.add(failing(), failed.append)
    jobs.add(surviving(), fail)
    jobs.add(job(steps, "a", told), fail)
    if isinstance(background, HeldWork):
        background.run()
    assert [type(error) for error in failed] == [ZeroDivisionError]
    assert told == ["caught", "a0", "a1"]


def test_what_is_not_wanted_any_more_is_not_done():
    work, told = HeldWork(), []
    steps = BackgroundQueue(work)
    steps.do(lambda: lambda: None, lambda error: None)
    is_wanted = [True]

    def asking():
        told.append((yield in_background(steps, lambda: "done", lambda: is_wanted[0])))

    jobs = BackgroundJobs()
    jobs.add(asking(), fail)
    is_wanted[0] = False
    work.run()
    assert told == [None]


def test_stop_ends_after_the_piece_that_runs():
    work, told = HeldWork(), []
    jobs = BackgroundJobs()
    jobs.add(job(BackgroundQueue(work), "a", told), fail)
    jobs.add(job(BackgroundQueue(work), "b", told), fail)
    jobs.stop()
    work.run()
    assert told == []
    jobs.add(job(BackgroundQueue(work), "c", told), fail)
    assert not work.pending
