"""Worked examples for 01 · tokenizer. They give no points; the grading suite looks at much more."""

from grader.suite import Stream, assert_equal, assert_value_error, fail, points
from grader.suite.pictures import beside, merges

# The example of the lesson: documents of one word each, and what is learned from them.
WORDS = ["low"] * 5 + ["lower"] * 2 + ["widest"] * 3 + ["newest"] * 6
LEARNED = [(b"s", b"t"), (b"e", b"st"), (b"o", b"w"), (b"l", b"ow"), (b"w", b"est"), (b"n", b"e"), (b"ne", b"west")]


def vocabulary(learned: list[tuple[bytes, bytes]], *special_tokens: str) -> dict[int, bytes]:
    """0 to 255 are the bytes, then the merges, then the special tokens."""
    tokens = [bytes([byte]) for byte in range(256)] + [left + right for left, right in learned]
    return dict(enumerate([*tokens, *(special.encode() for special in special_tokens)]))


def steps(yours: list[list[bytes]], expected: list[list[bytes]]) -> str:
    """The tokens of a word after each merge, one step a line, beside the right ones."""
    return beside(merges(yours), merges(expected))


@points(0, "numerics")
def test_low_lower_newest_widest(learner):
    """The example of the lesson: first (s, t), 9 times; it ties with (e, s), and the greater pair wins."""
    _, learned = learner.train_bpe(WORDS, 256 + 7)
    assert_equal(learned, LEARNED, what="merges")


@points(0, "numerics")
def test_ties_and_runs(learner):
    """Of bb, bc, ab and ac, each once, (b, c) is learned; in aaaa the pair (a, a) counts three times."""
    assert_equal(learner.train_bpe(["bb", "bc", "ab", "ac"], 257)[1], [(b"b", b"c")], what="merges")
    assert_equal(learner.train_bpe(["aaaa", "bc", "bc"], 257)[1], [(b"a", b"a")], what="merges")


@points(0, "shape")
def test_the_pairs_run_out(learner):
    """["ab"] has one pair: 256 bytes, one merge and <e> make 258 entries, although there is room for 300."""
    vocab, learned = learner.train_bpe(["ab"], 300, ["<e>"])
    assert_equal(learned, [(b"a", b"b")], what="merges")
    assert_equal(vocab, vocabulary([(b"a", b"b")], "<e>"), what="vocab")


@points(0, "numerics")
def test_a_word_that_was_never_seen(learner):
    """With the merges of the lesson, learned one after the other, lowest becomes low and est."""
    vocab = vocabulary(LEARNED)
    seen = []
    for count in range(5):
        ids = learner.Tokenizer(vocab, LEARNED[:count]).encode("lowest")
        if type(ids) is not list or not all(type(number) is int and number in vocab for number in ids):
            fail("encode does not return a list of ids")
        seen.append([vocab[number] for number in ids])
    right = [text.encode().split() for text in ("l o w e s t", "l o w e st", "l o w est", "l ow est", "low est")]
    assert_equal(seen, right, what="the tokens of lowest after 0, 1, 2, 3 and 4 merges", picture=steps)
    assert_equal(learner.Tokenizer(vocab, LEARNED).encode("lowest"), [259, 257], what="encode('lowest')")


@points(0, "numerics")
def test_the_first_learned_merge_comes_first(learner):
    """With the merges (b, c) and (a, b), abc is [a, bc]; with (a, a) as well, aaa is [aa, a]."""
    learned = [(b"b", b"c"), (b"a", b"b"), (b"a", b"a")]
    tokenizer = learner.Tokenizer(vocabulary(learned), learned)
    assert_equal(tokenizer.encode("abc"), [97, 256], what="encode('abc')")
    assert_equal(tokenizer.encode("aaa"), [258, 97], what="encode('aaa')")


@points(0, "numerics")
def test_special_tokens(learner):
    """Of <e> and <e><e> the longest that begins at a place is taken: <e><e><e> is the long one, then the short one."""
    tokenizer = learner.Tokenizer(vocabulary([], "<e>", "<e><e>"), [], ["<e>", "<e><e>"])
    assert_equal(tokenizer.encode("a<e><e><e> b"), [97, 257, 256, 32, 98], what="encode('a<e><e><e> b')")
    assert_equal(tokenizer.decode([97, 257, 256, 32, 98]), "a<e><e><e> b", what="the text that comes back")


@points(0, "robustness")
def test_bytes_and_characters(learner):
    """é is two bytes and 🙂 four; what is left of a character that was cut becomes U+FFFD."""
    tokenizer = learner.Tokenizer(vocabulary([]), [])
    assert_equal(tokenizer.encode("é🙂"), [0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82], what="encode('é🙂')")
    assert_equal(tokenizer.decode([0xC3, 0xA9, 0xF0, 0x9F, 0x99, 0x82]), "é🙂", what="the text that comes back")
    assert_equal(tokenizer.decode([97, 0xF0, 0x9F]), "a\ufffd", what="decode of half a character")


@points(0, "robustness")
def test_one_id_at_a_time(learner):
    """encode_iterable of "ab" and "c" gives the ids 256 and 99, and reads no text long before it needs it."""
    learned = [(b"a", b"b")]
    texts = Stream(["ab", "c", "d", "e"])
    ids = iter(learner.Tokenizer(vocabulary(learned), learned).encode_iterable(texts))
    assert_equal([next(ids, None), next(ids, None)], [256, 99], what="the first two ids")
    if texts.pulled > 3:
        fail(f"{texts.pulled} texts were read for the ids of two")


@points(0, "robustness")
def test_bad_arguments(learner):
    """vocab_size 256 has no room for a special token, and nothing has the id 300: both raise ValueError."""
    assert_equal(learner.train_bpe(["ab"], 257, ["<e>"])[1], [], what="merges")
    assert_value_error(learner.train_bpe, ["ab"], 256, ["<e>"], naming="vocab_size")
    assert_value_error(learner.Tokenizer(vocabulary([]), []).decode, [97, 300], naming="ids", values=[300])
