"""The numbers of lesson 01."""

from collections import Counter
from itertools import pairwise

from solutions.config import ModelConfig
from solutions.ex01_tokenizer import PRETOKEN_PATTERN, Tokenizer, train_bpe
from solutions.text import SENTENCES, documents, english_text

from .graded import graded

WORDS = {"low": 5, "lower": 2, "widest": 3, "newest": 6}


def tokens_of(word: str, vocab, merges) -> list[str]:
    """A word's tokens as text."""
    return [vocab[number].decode() for number in Tokenizer(vocab, merges).encode(word)]


def the_example(lesson):
    """The table of merges, line by line: the counts before each merge, its ties, and two words after it."""
    lesson.given("`low` 5 times, `lower` 2, `widest` 3, `newest` 6 times")
    vocab, merges = train_bpe([word for word, times in WORDS.items() for _ in range(times)], 256 + 7)
    lesson.says("3 + 6 = 9 times", [WORDS["widest"], WORDS["newest"], WORDS["widest"] + WORDS["newest"]])
    for learned, pair in enumerate(merges):
        counts: Counter[tuple[str, str]] = Counter()
        for word, times in WORDS.items():
            for one in pairwise(tokens_of(word, vocab, merges[:learned])):
                counts[one] += times
        pair = tuple(part.decode() for part in pair)
        ties = sorted((one for one, count in counts.items() if count == counts[pair] and one < pair), key=", ".join, reverse=True)
        assert all(count < counts[pair] or one <= pair for one, count in counts.items())
        (line,) = (line for line in lesson.text.splitlines() if line.startswith(f"({pair[0]}, {pair[1]})  "))
        for one in ties:
            assert f"({one[0]}, {one[1]})" in line
        assert line.count("(") == 1 + len(ties)
        assert line.split()[-2:] == ["·".join(tokens_of(word, vocab, merges[: learned + 1])) for word in ("newest", "lowest")]
        lesson.says(line, [counts[pair], 256 + learned])
    lesson.says('`encode("lowest")` is `[259, 257]`', Tokenizer(vocab, merges).encode("lowest"))
    lesson.says("three pairs occur 6 times", WORDS["newest"])
    lesson.says('"lowest" ──encode──▶ [259, 257]', Tokenizer(vocab, merges).encode("lowest"))


def bytes_and_characters(lesson):
    lesson.fact("more than 150 000")
    lesson.says("there are only 256", len(train_bpe([], 256)[0]))
    assert [len(character.encode()) for character in SENTENCES[9]] == [3] * len(SENTENCES[9])
    assert len(b" tokens") == 7 and len("é".encode()) == 2 and len("e\u0301".encode()) == 3
    lesson.says('"low", 3 characters', len("low"))
    lesson.says('`" low"` is 4 bytes, at first 4 tokens', [len(b" low"), len(Tokenizer(*train_bpe([], 256)).encode(" low"))])
    config = ModelConfig()
    lesson.says("V = 6400 and C = 768", [config.vocab_size, config.hidden_size])
    lesson.says("4 915 200", config.vocab_size * config.hidden_size)
    lesson.says("MiniMind: V = 6400", config.vocab_size)
    lesson.given("256 + M")
    lesson.given("`[1, 100]`")


def the_printout(lesson):
    lesson.says("SENTENCES, 456))  # 200", [456, 200])
    vocab, merges = train_bpe(SENTENCES, 456)
    assert len(vocab) == 456 and len(merges) == 200
    tokenizer = Tokenizer(vocab, merges)
    sizes = [(len(text), len(text.encode()), len(tokenizer.encode(text))) for text in SENTENCES]
    lesson.says("86 characters, 86 bytes and 47 tokens", sizes[0])
    lesson.says("60 characters, 107 bytes and 44 tokens", sizes[4])
    lesson.says("22, 66 and 46", sizes[9])
    assert "слово" in SENTENCES[4] and sizes[9][2] > sizes[9][0]


def help_pages(lesson):
    some = documents()[::8]
    text = "\n".join(some)
    ids = Tokenizer(*train_bpe(some, 1000)).encode(text)
    assert 1 / 4 < len(ids) / len(text.encode()) < 0.4  # it depends a little on the version of Python
    lesson.given("of 1000 needs about a third as many ids as")
    lesson.given("with 1000 merges and half a megabyte")
    assert 0.4e6 < len(english_text()) < 0.6e6


def contract(lesson):
    assert PRETOKEN_PATTERN.findall("I've  2 dogs") == ["I", "'ve", " ", " 2", " dogs"]
    lesson.given("` 2` and ` dogs`")
    lesson.given("`I've  2 dogs`")
    assert train_bpe(["aaaa", "bb", "bb"], 257)[1] == [(b"a", b"a")]
    assert train_bpe(["bb", "bc", "ab", "ac"], 257)[1] == [(b"b", b"c")]
    lesson.given('train_bpe(["bb", "bc", "ab", "ac"], 257)')
    vocab, _ = train_bpe(["ab"], 300, ["<e>"])
    lesson.given('train_bpe(["ab"], 300, ["<e>"])')
    lesson.says("has 258 entries, and `<e>` is 257", [len(vocab), max(vocab)])
    lesson.says("0 to 255 are the bytes", [0, 255])
    lesson.given("256 + len(special_tokens)")
    small = Tokenizer(*train_bpe([], 256))
    assert "".join(small.decode([number]) for number in small.encode("🙂")) == "\ufffd" * 4


def test_every_number(lesson):
    the_example(lesson)
    bytes_and_characters(lesson)
    the_printout(lesson)
    help_pages(lesson)
    contract(lesson)
    lesson.given("read hint 3")
    for category, value in graded("01").items():
        lesson.says(f"| {category.replace('_', ' ')} | {value:g} |", value)
    lesson.given("4 MiB of documents are read without memory growing by more than 1 MiB")
    lesson.given("counts that reach 0")
    lesson.given("python -m grader look 01")
    for fact in ("(1994)", "(2016)", "(2019)", "GPT-2", "UTF-8"):
        lesson.fact(fact)
    lesson.given("U+FFFD")
    lesson.complete()
