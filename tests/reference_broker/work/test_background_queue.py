"""Steps of a BackgroundQueue run one after another, in order, and a failed step does not hold up the next.

Method: release background work step by step.
"""

from kafkawire.reference_broker.work.background_queue import BackgroundQueue
from tests.reference_broker.storage.held_work import HeldWork


def test_one_step_after_the_other():
    work, told = HeldWork(), []
    steps = BackgroundQueue(work)

    def step(name, **options):
        def prepare():
            told.append(f"prepare {name}")
            return lambda: told.append(f"do {name}")

        steps.do(prepare, lambda error: told.append(f"done {name}"), **options)

    step("a")
    step("b")
    step("c", place=0)
    step("d", place=1)
    step("e", place=9)
    assert (told, len(work.pending)) == (["prepare a"], 1), "c is prepared when a is done"
    work.run()
    assert told == [f"{what} {name}" for name in "acdbe" for what in ("prepare", "do", "done")]


def test_step_that_fails_is_told_and_followed():
    work, told = HeldWork(), []
    steps = BackgroundQueue(work)

    def fail():
        raise OSError("gone")

    steps.do(lambda: fail, told.append)
    steps.do(lambda: lambda: None, told.append)
    work.run()
    assert [str(error) for error in told] == ["gone", "None"]


def test_step_that_cannot_be_prepared_is_told_and_followed():
    work, told = HeldWork(), []
    steps = BackgroundQueue(work)

    def fail():
        raise ValueError("odd")

    steps.do(fail, told.append)
    steps.do(lambda: lambda: None, told.append)
    work.run()
    assert [str(error) for error in told] == ["odd", "None"]


def test_no_step_begins_after_the_end():
    work, told = HeldWork(), []
    steps = BackgroundQueue(work)
    steps.do(lambda: lambda: told.append("a"), lambda error: None)
    steps.do(lambda: lambda: told.append("b"), lambda error: None)
    steps.close()
    work.run()
    assert told == ["a"]


def test_step_that_has_to_wait_holds_up_the_others():
    work, told, begin = HeldWork(), [], []
    steps = BackgroundQueue(work)
    steps.do(lambda: lambda: told.append("a"), lambda error: None, when=begin.append)
    steps.do(lambda: lambda: told.append("b"), lambda error: None)
    work.run()
    assert told == []
    begin[0]()
    work.run()
    assert told == ["a", "b"]


def test_step_that_waits_does_not_begin_after_the_end():
    work, told, begin = HeldWork(), [], []
    steps = BackgroundQueue(work)
    steps.do(lambda: lambda: told.append("a"), lambda error: None, when=begin.append)
    steps.close()
    begin[0]()
    work.run()
    assert told == []
