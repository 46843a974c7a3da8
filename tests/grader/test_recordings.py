"""What trusted code answered once is not computed again, and whatever else is asked gets a true answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from grader.sandbox.client import Package
from grader.sandbox.remote import LearnerError, Local, Observation, Remote, Session
from grader.suite import recordings
from grader.suite.recordings import Player, Recording, Tape, answered, forget_all, recorded, remember_only, tape

SOURCE = """
class Counter:
    def __init__(self, start):
        self.count = start

    def add(self, number):
        self.count += number
        return self.count

def counter(start):
    return Counter(start)

def double(x):
    return 2 * x

def total(numbers):
    return sum(numbers)

def fail():
    raise ValueError("no")
"""


@pytest.fixture
def package() -> Iterator[Callable[[], Local]]:
    """A package's executor, which writes down what it is asked for."""
    local = Local(Package(name="recorded_package", main="main", files={"main.py": SOURCE.encode()}))
    asked: list[str] = []
    ask = local.request

    def request(message, blob, streams):
        asked.append(message.path)
        return ask(message, blob, streams)

    local.request = request
    give = lambda: local  # noqa: E731
    give.asked = asked
    yield give
    local.close()


def remote(tape: Tape, package: Callable[[], Local]) -> Remote:
    player = Player(tape, package)
    return Remote(Session(lambda: player))


def test_the_same_questions_are_answered_without_the_package(package):
    known = Tape()
    for _ in range(2):
        one = remote(known, package)
        x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        doubled = one.double(x)
        assert torch.equal(doubled, 2 * x)
        doubled.zero_()  # what a test does to an answer does not reach the next one's
        counter = one.counter(3)
        assert [counter.add(4), counter.add(5)] == [7, 12]
        with pytest.raises(LearnerError, match="fail raised ValueError: no"):
            one.fail()
    assert package.asked == ["double", "counter", "add", "add", "fail"]


def test_after_another_question_the_package_goes_on_from_where_the_tape_left_it(package):
    known = Tape()
    counter = remote(known, package).counter(3)
    assert [counter.add(4), counter.add(5)] == [7, 12]
    counter = remote(known, package).counter(3)
    assert [counter.add(4), counter.add(6), counter.add(1)] == [7, 13, 14]
    assert package.asked[3:] == ["counter", "add", "add", "add"]
    counter = remote(known, package).counter(3)  # the tape still holds the first run
    assert [counter.add(4), counter.add(5)] == [7, 12]


def test_where_a_run_broke_off_the_next_one_goes_on(package):
    known = Tape()
    for numbers in ([4], [4, 5], [4, 5, 6], [4, 5, 6]):
        counter = remote(known, package).counter(3)
        assert [counter.add(number) for number in numbers] == [7, 12, 18][: len(numbers)]
    assert [request.path for request, _ in known.questions] == ["counter", "add", "add", "add"]
    assert package.asked[-4:] == ["counter", "add", "add", "add"] and len(package.asked) == 2 + 3 + 4


def test_two_who_ask_in_turns_leave_one_story_on_the_tape(package):
    known = Tape()
    one, other = remote(known, package), remote(known, package)
    assert [one.double(1), other.double(1), other.double(2), one.double(3), other.double(4)] == [2, 2, 4, 6, 8]
    assert [request.arguments["u"] for request, _ in known.questions] == [[1], [2], [4]]


def test_values_of_the_same_shape_are_other_questions(package):
    known = Tape()
    assert remote(known, package).double(torch.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    assert remote(known, package).double(torch.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]


def test_streams_are_pulled_anew_and_end_the_tape(package):
    from grader.sandbox.client import Stream

    known = Tape()
    for numbers in ([1, 2], [3, 4]):
        one = remote(known, package)
        assert one.double(5) == 10
        assert one.total(Stream(iter(numbers))) == sum(numbers)
        assert one.double(6) == 12
    assert [request.path for request, _ in known.questions] == ["double"]


def test_a_tape_does_not_grow_for_ever(package, monkeypatch):
    monkeypatch.setattr(recordings, "MAX_TAPE", 100)
    known = Tape()
    for _ in range(2):
        one = remote(known, package)
        for number in range(5):
            x = torch.full((3, 5), float(number))
            assert torch.equal(one.double(x), 2 * x)
    assert len(known.questions) == 1


def some_package(name: str, source: str = SOURCE) -> Package:
    return Package(name=name, main="main", files={"main.py": source.encode()})


def test_another_seed_exercise_or_version_of_a_package_forgets():
    one, other = some_package("one"), some_package("other")
    remember_only(1, "main")
    tapes = [tape(one, "test"), tape(other, "test")]
    remember_only(1, "main")
    assert tape(some_package("one"), "test") is tapes[0] and tape(other, "test") is tapes[1]
    changed = some_package("one", SOURCE + "\n")
    assert tape(changed, "test") is not tapes[0] and tape(other, "test") is tapes[1]
    remember_only(2, "main")
    assert tape(other, "test") is not tapes[1]
    tapes = [tape(one, "test"), tape(other, "test")]
    remember_only(2, "another")
    assert tape(one, "test") is not tapes[0]
    forget_all()


def test_what_chaffs_answer_is_asked_once_and_has_an_end(monkeypatch):
    package, asked = some_package("one"), []

    def ask() -> Observation:
        asked.append(1)
        return Observation("double", value=({"x": torch.zeros(5, 200)}, 3))  # 4000 bytes

    forget_all()
    for question in (b"first", b"first", b"second", b"first"):
        answered(package, question, ask)
    assert len(asked) == 2
    recording = lambda: Recording([ask(), ask()], failed=True)  # noqa: E731
    for _ in range(2):
        recorded(package, "test", recording)
    assert len(asked) == 4
    monkeypatch.setattr(recordings, "MAX_HELD", 20_000)
    for _ in range(2):
        recorded(package, "a test that still fits in", recording)
    assert len(asked) == 6
    for _ in range(2):
        recorded(package, "a test too many", recording)
        answered(package, b"a question too many", ask)
    assert len(asked) == 12
    forget_all()
    answered(package, b"first", ask)
    assert len(asked) == 13
    forget_all()
