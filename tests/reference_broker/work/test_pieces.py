"""Work yields after each entry, and a piece of work ends when it has handled its maximum number of entries."""

from kafkawire.reference_broker.work.pieces import Pieces, counted, each

MANY = 1_000


def result(work):
    """Run the work to its end; return its result and the number of times that it yielded."""
    turns = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, turns
        turns += 1


def test_every_piece_ends_with_its_last_entry():
    pieces = Pieces(3)
    assert [pieces.ends() for _ in range(7)] == [False, False, True, False, False, True, False]


def test_each_entry_gives_way():
    assert result(each(range(MANY), str)) == ([str(number) for number in range(MANY)], MANY)
    assert result(counted(range(MANY)))[1] == MANY


def test_entries_are_counted_in_the_order_in_which_they_come_first():
    counts, _ = result(counted("cabca"))
    assert list(counts.items()) == [("c", 2), ("a", 2), ("b", 1)]
