"""A log's background work is counted, its end is reported, and changes to the log's files take turns."""

from kafkawire.reference_broker.storage.disk.memory import MemoryDisk
from kafkawire.reference_broker.storage.log.file_work import FileWork, Turns, when_all_quiet
from kafkawire.reference_broker.storage.services import LogServices
from tests.reference_broker.storage.held_work import HeldWork


def test_the_end_is_told_after_the_last_work_and_what_it_leads_to():
    held, told = HeldWork(), []
    files = FileWork(LogServices(MemoryDisk(), held))
    files.do(lambda: None, lambda error: files.do(lambda: None, lambda error: told.append("second")))
    files.when_quiet(lambda: told.append("quiet"))
    held.run()
    assert told == ["second", "quiet"]


def test_nothing_is_waited_for_if_nothing_runs():
    told = []
    FileWork(LogServices(MemoryDisk())).when_quiet(lambda: told.append("quiet"))
    assert told == ["quiet"]


def test_all_of_several_logs():
    held, told = HeldWork(), []
    busy, quiet = (FileWork(LogServices(MemoryDisk(), held)) for _ in range(2))
    busy.do(lambda: None, lambda error: None)
    when_all_quiet([busy, quiet], lambda: told.append("quiet"))
    assert told == []
    held.run()
    assert told == ["quiet"]


def test_turns():
    turns, told = Turns(), []
    turns.take(lambda: told.append("first"))
    turns.take(lambda: told.append("second"))
    turns.take(lambda: told.append("third"))
    assert told == ["first"]
    turns.give()
    assert told == ["first", "second"]
    turns.give()
    turns.give()
    turns.take(lambda: told.append("fourth"))
    assert told == ["first", "second", "third", "fourth"]
