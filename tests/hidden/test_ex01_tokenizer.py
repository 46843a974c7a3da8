"""Grades 01 · tokenizer: which pairs are learned and in which order, ids, special tokens, bytes that come back as text."""

from typing import Any

from grader.suite import (
    LearnerError,
    Stream,
    assert_arguments_unchanged,
    assert_equal,
    assert_value_error,
    choice,
    fail,
    points,
    randint,
)

Pair = tuple[bytes, bytes]

SENTENCES = (
    "Größere Köpfe denken nicht besser, nur öfter: acht von ihnen teilen sich vier Schlüssel.",
    "Où regarde-t-on d'abord ? Là où la clé ressemble à la question, bien sûr.",
    "Чем дальше слово, тем слабее слышен его голос, но он слышен.",
    "Ο δρόμος ανάμεσα σε δύο λέξεις έχει πάντα μήκος ένα.",
    "हर शब्द अपने पहले के शब्दों से पूछता है।",
    "每个词都向前面的词提问，然后带走它们的答案。",
    "모든 낱말은 앞선 낱말에게만 묻는다.",
    "🙂 one face, 👩‍💻 three code points, 🇨🇭 two, 👍🏽 two, and 🧠🔥 side by side.",
)
ENGLISH = (
    "Isn't it odd? They'll say we've 24 heads, I'd say it's 8 (eight!).\n\n",
    "  two  blanks,\ttabs\tand\r\n   lines   end here...   ",
    "x2 = y_1 * 3.25; f(x2)[0] -= 'll' # we're 're",
    "COPY Copy copy copying copied, don't we all? 1999 2000 2001.",
)


# ---- what the tests are made of --------------------------------------------------------------------------------------


def letters(count: int, alphabet: str = "abc") -> str:
    """A random string of at least two letters."""
    return "".join(alphabet[index] for index in randint(0, len(alphabet), count).tolist())


def shuffled(items: Any) -> list:
    """The same items in a random order."""
    left = list(items)
    return [left.pop(int(randint(0, len(left), 2)[0])) for _ in range(len(left))]


def names(count: int) -> list[str]:
    """Different letters of the alphabet."""
    return shuffled("abcdefghijklmnopqrstuvwxyz")[:count]


def pairs(*texts: str) -> list[Pair]:
    """`pairs("a b", "ab c")` is [(b"a", b"b"), (b"ab", b"c")]."""
    return [tuple(part.encode() for part in text.split()) for text in texts]


def vocabulary(merges: list[Pair], special_tokens: Any = ()) -> dict[int, bytes]:
    """Bytes, merges, special tokens."""
    tokens = [bytes([byte]) for byte in range(256)] + [left + right for left, right in merges]
    return dict(enumerate(tokens + [special.encode() for special in special_tokens]))


def learned(result: Any) -> tuple[Any, Any]:
    """vocab and merges, if they are two."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        fail("train_bpe does not return a pair (vocab, merges)")
    return tuple(result)


def assert_merges(mine: Any, right: list[Pair]) -> None:
    """The same pairs in the same order; the first wrong one is told."""
    if type(mine) is list:
        for number, (one, other) in enumerate(zip(mine, right, strict=False), start=1):
            assert_equal(one, other, what=f"merge number {number}")
    assert_equal(mine, right, what="merges")


def assert_trained(learner: Any, reference: Any, documents: Any, vocab_size: int, special_tokens: Any = ()) -> None:
    """vocab and merges are the reference's."""
    arguments = (documents, vocab_size, special_tokens) if special_tokens else (documents, vocab_size)
    vocab, merges = learned(learner.train_bpe(*arguments))
    right_vocab, right_merges = reference.train_bpe(*arguments)
    assert_merges(merges, right_merges)
    if vocab != right_vocab:
        assert_equal(vocab, right_vocab, what="vocab")


def assert_encoded(
    learner: Any, reference: Any, merges: list[Pair], *texts: str, special_tokens: Any = (), vocab: dict[int, bytes] | None = None
) -> None:
    """The ids of each text are the reference's, and each text comes back."""
    vocab = vocab or vocabulary(merges, special_tokens)
    arguments = (vocab, merges, special_tokens) if special_tokens else (vocab, merges)
    mine, right = learner.Tokenizer(*arguments), reference.Tokenizer(*arguments)
    for text in texts:
        ids = right.encode(text)
        shown = repr(text) if len(text) < 40 else "..."
        assert_equal(mine.encode(text), ids, what=f"encode({shown})")
        assert_equal(mine.decode(ids), text, what=f"decode(encode({shown}))")


# ---- shape: vocab, ids, types ----------------------------------------------------------------------------------------


@points(0.5, "shape")
def test_ids_are_bytes_then_merges_then_special_tokens(learner, reference):
    """vocab has vocab_size entries: the 256 bytes, the merges in order, the special tokens as they were given."""
    documents = [letters(40, "abcd "), letters(40, "abcd ")]
    for special_tokens in ([], ["<b>"], ["<z>", "<a>", "<m>"]):
        size = 256 + choice([3, 4, 5, 6]) + len(special_tokens)
        vocab, merges = learned(learner.train_bpe(documents, size, special_tokens))
        assert_equal(vocab, reference.train_bpe(documents, size, special_tokens)[0], what="vocab")
        assert_equal(len(merges), size - 256 - len(special_tokens), what="the number of merges")


@points(0.25, "shape")
def test_no_merge_is_asked_for(learner, reference):
    """With vocab_size = 256 + the number of special tokens nothing is merged."""
    for special_tokens in ([], ["<e>"], ["<e>", "<pad>"]):
        assert_trained(learner, reference, ["abab", "abc"], 256 + len(special_tokens), special_tokens)
    assert_trained(learner, reference, ["abab", "abc"], 257)


@points(0.5, "shape")
def test_training_stops_when_no_pair_is_left(learner, reference):
    """When every pre-token is one token, nothing more is learned; special tokens come right behind the last merge."""
    one, two, three = names(3)
    assert_trained(learner, reference, [one + two], 300, ["<e>"])
    assert_trained(learner, reference, [one + two + three, one], 300, ["<e>", "<f>"])
    assert_trained(learner, reference, [one + two], 257)
    for documents in ([], [""], [one, "", two], ["<e>", "é"]):
        assert_trained(learner, reference, documents, 300, ["<e>"])


@points(0.25, "shape")
def test_nothing_and_single_bytes(learner, reference):
    """The empty text has no ids, no ids are the empty text, and one letter is one id."""
    merges = pairs("a b")
    assert_encoded(learner, reference, merges, "ab", "", "a", "z", special_tokens=["<e>"])
    assert_encoded(learner, reference, [], "", "ab", "b")
    assert_equal(learner.Tokenizer(vocabulary(merges), merges).decode([]), "", what="decode([])")


# ---- numerics: which pairs are learned -------------------------------------------------------------------------------


@points(0.5, "numerics")
def test_the_most_frequent_pair_comes_first(learner, reference):
    """Each merge joins the pair that occurs most often in all documents together."""
    a, b, c, d, e, f, g = names(7)
    first, second, third, fourth = shuffled([2, 5, 9, 14])
    words = [a + b] * first + [c + d] * second + [e + f] * third + [a + b + g] * fourth
    words = shuffled(words)
    assert_trained(learner, reference, ["\n".join(words)], 256 + 4)  # the letters of two pairs are never the same: no ties
    assert_trained(learner, reference, words, 256 + 4)
    assert_trained(learner, reference, ["\n".join(words[::2]), "\n".join(words[1::2])], 256 + 3)


@points(0.5, "numerics")
def test_every_adjacent_pair_counts(learner, reference):
    """Pairs that overlap count, too: (a, a) occurs three times in aaaa."""
    a, b, c, d = names(4)
    assert_trained(learner, reference, [f"{a * 5}{b}{c}{b}{c}{b}{c}"], 257)
    assert_trained(learner, reference, [c + a + b + c + a + c + a + d * 3 + a + c + d * 3], 257)
    assert_trained(learner, reference, [a * 4, *[b + c] * 2], 256 + 4)


@points(0.5, "numerics")
def test_every_occurrence_is_joined_from_the_left(learner, reference):
    """A merge is carried out everywhere in a word, from its left end, before pairs are counted again."""
    a, b, c, d = names(4)
    assert_trained(learner, reference, [(a + b) * 3 + c + a + b + d], 256 + 6)
    assert_trained(learner, reference, [a * 5 + b, a * 5 + b], 256 + 4)
    assert_trained(learner, reference, [a * 7], 300)
    assert_trained(learner, reference, [(a + b + a) * 3], 300)


@points(0.75, "numerics")
def test_ties_go_to_the_greatest_pair(learner, reference):
    """Of equally frequent pairs the greatest (bytes, bytes) is joined first."""
    assert_trained(learner, reference, shuffled(["bb", "bc", "ab", "ac"]), 257)
    a, b, c, d, e, f = names(6)
    assert_trained(learner, reference, shuffled([a + b, a + c, b + a, d + e, f + a, c + d]), 256 + 6)
    assert_trained(learner, reference, [f" {a} {a} {b}{c} {b}{c}"], 257)  # a blank is smaller than any letter
    assert_trained(learner, reference, shuffled([a + b, "é", "中", "." + a, " " + b]), 256 + 4)


@points(0.5, "numerics")
def test_ties_between_merged_tokens(learner, reference):
    """In a tie a merged token is compared by its bytes, like any other; neither its age nor its length counts."""
    assert_trained(learner, reference, ["zzzé"], 256 + 3)
    z, e, f = sorted(names(3), reverse=True)
    assert_trained(learner, reference, shuffled([f + f, f + f, f + f + e, z + e]), 256 + 3)
    assert_trained(learner, reference, ["abab", "abc", "bcbc", "ab", "bc", "abb"], 256 + 8)
    assert_trained(learner, reference, shuffled(["abcab", "bcabc", "cabca"]), 256 + 8)


@points(0.25, "numerics")
def test_pairs_that_occur_once_are_joined(learner, reference):
    """A pair that occurs a single time is still a pair."""
    word = "".join(names(6))
    assert_trained(learner, reference, [word], 300)
    assert_trained(learner, reference, [word[:3], word[3:]], 256 + 4)


@points(0.5, "numerics")
def test_counts_stay_right_merge_after_merge(learner, reference):
    """After many merges in words of two letters the counts still hold, in runs too."""
    for _ in range(3):
        words = [letters(int(length), "ab") for length in randint(2, 14, 9)]
        assert_trained(learner, reference, words, 256 + 24)
    assert_trained(learner, reference, [letters(60, "abc ")], 300)


@points(0.5, "numerics")
def test_no_pair_crosses_a_border(learner, reference):
    """Pairs are counted inside pre-tokens: never across two of them, and never across two documents."""
    a, b, c, d = names(4)
    assert_trained(learner, reference, [a + b, c + d] * 4, 256 + 4)
    assert_trained(learner, reference, [f"{a}  ", f"  {b}", "\n", "\n"], 256 + 4)
    assert_trained(learner, reference, [f"{a}1{a}1{a}1 {b}.{b}. {c}'s {d}'s"], 256 + 5)
    one, two, three, four = shuffled(ENGLISH)
    assert_trained(learner, reference, [one + two, two], 256 + 24)
    assert_trained(learner, reference, [three + four, four], 256 + 24)


@points(0.25, "numerics")
def test_documents_are_learned_as_they_are(learner, reference):
    """No blank, line end, capital or accent of a document is changed, and no pre-token ends only because a line does."""
    a, b, c = names(3)
    assert_trained(learner, reference, [f"{a}\n\n\n\n {b}", f"{c}\n\n\n\n {b}"], 257)
    assert_trained(learner, reference, [f"{a}\n\n\n{b}", f"{c}\n\n\n{b}"], 257)
    assert_trained(learner, reference, [f"{a} \r\n \r\n{b}"] * 2, 256 + 3)
    assert_trained(learner, reference, ["cafe\u0301 A\u030a"] * 2, 256 + 6)
    assert_trained(learner, reference, ["\u2126\ufb01 \u0130"] * 2, 256 + 6)
    assert_trained(learner, reference, [f"{a.upper()}{b.upper()} {a}{c}", f"  {a.upper()}{b}  "], 256 + 5)


@points(0.25, "numerics")
def test_bytes_and_not_characters_are_joined(learner, reference):
    """Text is its UTF-8 bytes: a letter with an accent is two tokens at first, and an emoji four."""
    assert_trained(learner, reference, ["éèé", "中文中", "🙂🙂"], 256 + 8)
    assert_trained(learner, reference, [choice(SENTENCES[:4]), choice(SENTENCES[4:])], 256 + 16)


@points(0.5, "numerics")
def test_special_tokens_are_no_text(learner, reference):
    """Special tokens are cut out of the documents: nothing of them is counted, and no pair reaches over one."""
    a, b = names(2)
    for special in ("<|endoftext|>", *shuffled(["<|e|>", "</s>", "[PAD]", "\n\n", "ab"])[:2]):
        assert_trained(learner, reference, [(special * 2).join([a + b + a] * 6)], 256 + 3, [special])
    assert_trained(learner, reference, ["<e>", f"<e>{a}{b}<e><f>{b}{a} <f>", f"{a}  <e>{b}  "], 256 + 4, ["<e>", "<f>"])


@points(0.25, "numerics")
def test_which_special_token_is_cut_out(learner, reference):
    """From the left, and at each place the longest; brackets, stars and dots in them stand for themselves."""
    text = "xx<e><e><e>yy<e>xx.*zz[x]+yyxx[yyuvwxuvuvwx"
    assert_trained(learner, reference, [text] * 2, 256 + 15, ["<e>", "uv", "<e><e>", "[x]+", "uvw", ".*", "[y"])
    assert_trained(learner, reference, ["pqrsqr", "qrs" * 3], 256 + 6, ["pq", "qrs"])


# ---- numerics: from text to ids and back -----------------------------------------------------------------------------


@points(0.75, "numerics")
def test_the_merge_that_was_learned_first_is_made_first(learner, reference):
    """Neither the leftmost pair nor the longest token is joined first, but the pair with the lowest rank."""
    a, b, c, d = names(4)
    merges = pairs(f"{b} {c}", f"{a} {b}", f"{c} {d}", f"{b}{c} {d}", f"{a} {b}{c}{d}", f"{a}{b} {d}")
    words = [letters(int(length), a + b + c + d) for length in randint(3, 12, 8)]
    assert_encoded(learner, reference, merges, a + b + c + d, a + b + c, a + b + a + b + c, c + d + b + c, *words)
    assert_encoded(learner, reference, merges[:2], a + b + c, a + b + a + b + c)


@points(0.25, "numerics")
def test_runs_are_joined_from_the_left(learner, reference):
    """With the merge (a, a) the word aaa is [aa, a]."""
    a, b = names(2)
    merges = pairs(f"{b} {a}", f"{a} {a}", f"{a}{a} {a}{a}")
    assert_encoded(learner, reference, merges, a * 3, a * 5, b + a * 4, a * 7 + b, b * 2 + a * 6)


@points(0.5, "numerics")
def test_other_text_than_the_training_text(learner, reference):
    """With vocabulary and merges of one text, another text gets the right ids."""
    documents = [letters(90, "abc de"), choice(ENGLISH)]
    vocab, merges = reference.train_bpe(documents, 256 + 18)
    while len(set(vocab.values())) < len(vocab):  # two ways to one token: then its id is anyone's
        documents = [letters(90, "abc de"), choice(ENGLISH)]
        vocab, merges = reference.train_bpe(documents, 256 + 18)
    texts = [letters(30, "abc de"), letters(30, "ab e"), choice(ENGLISH), choice(SENTENCES)]
    assert_encoded(learner, reference, merges, *texts, vocab=vocab)


@points(0.25, "numerics")
def test_no_merge_crosses_a_pre_token(learner, reference):
    """A merge is made inside pre-tokens only, even if its two parts stand side by side in the text; a line end is none."""
    merges = [(b"a", b" "), (b"b", b"'"), (b"1", b"a"), (b" ", b" "), (b"a", b"b"), (b" ", b"a")]
    assert_encoded(learner, reference, merges, "a b", "ab'll", "1a1a", "a   ab", " a a ", "ab\n  \nab")
    assert_encoded(learner, reference, [(b"\n", b"\n"), (b"\r", b"\n"), (b" ", b"\n")], "a\n\n\nb", "a\r\n\r\nb", "a \n \n")


@points(0.25, "numerics")
def test_ids_are_those_of_vocab(learner, reference):
    """The ids are the keys of vocab, in whatever order the tokens stand there, and say nothing of which merge comes first."""
    vocab = vocabulary([]) | {900: b"ab", 800: b"bc"}
    assert_encoded(learner, reference, pairs("a b", "b c"), "abc", "cabcb", vocab=vocab)
    vocab = vocabulary([]) | {900: b"bc", 800: b"ab", 700: b"abc"}
    assert_encoded(learner, reference, pairs("b c", "a b"), "abc", "abbc", "babc", vocab=vocab)
    merges, special_tokens = pairs("b c", "a b", "a bc"), ["<f>", "<e>"]
    tokens = shuffled(vocabulary(merges, ["<e>", "<f>"]).values())
    for vocab in (dict(enumerate(tokens)), {3 * number + 11: token for number, token in enumerate(tokens)}):
        texts = ("abc<e>abé", "<f><e>cab", "\x00\x7f")
        assert_encoded(learner, reference, merges, *texts, vocab=vocab, special_tokens=special_tokens)


@points(0.5, "numerics")
def test_special_tokens_are_one_id_each(learner, reference):
    """A special token is one id wherever it stands, and the text around it is encoded as if it stood alone."""
    merges, special_tokens = [*pairs("a b", "< e", "e >"), (b" ", b" ")], ["<e>", "<|im_end|>"]
    texts = ["a<e>b", "ab<e><e>ab", "<e>", ".<|im_end|>", "ab.<|im_end|>\n", "a  <e>  b", " <e> ", "it<e>'s", "<e", "<E>"]
    assert_encoded(learner, reference, merges, *texts, special_tokens=special_tokens)


@points(0.25, "numerics")
def test_which_special_token_is_meant(learner, reference):
    """From the left, and at each place the longest; brackets, stars and dots in them stand for themselves."""
    special_tokens = ["<e>", "<e><e>", "[x]+", ".*", "pq", "qrs"]
    texts = ["<e><e><e>", "a<e>b<e><e>", "x[x]+x", "a.*b.", "pqrs", "qrspq", "<e<e>>"]
    assert_encoded(learner, reference, pairs("x x", "r s"), *texts, special_tokens=special_tokens)
    assert_encoded(learner, reference, [], *texts, special_tokens=special_tokens[::-1])


@points(0.25, "numerics")
def test_bytes_are_joined_before_they_become_text(learner, reference):
    """A character whose bytes are spread over several tokens comes back whole."""
    vocab, merges = vocabulary([(b"\xa9", b"!")], ["<é>"]), [(b"\xa9", b"!")]
    mine, right = learner.Tokenizer(vocab, merges, ["<é>"]), reference.Tokenizer(vocab, merges, ["<é>"])
    for ids in ([0xC3, 0xA9], [97, 0xC3, 256], [0xF0, 0x9F, 0x99, 0x82, 257], [0xE4, 0xB8, 0xAD, 98]):
        assert_equal(mine.decode(ids), right.decode(ids), what="the decoded text")


@points(0.5, "numerics")
def test_many_texts_one_after_the_other(learner, reference):
    """encode_iterable gives the ids of every text, each encoded on its own, one int at a time."""
    merges, special_tokens = pairs("a b", "c a", "ab c"), ["<e>"]
    arguments = (vocabulary(merges, special_tokens), merges, special_tokens)
    mine, right = learner.Tokenizer(*arguments), reference.Tokenizer(*arguments)
    for texts in (["abc", "ab"], ["a", "b", "", " \n", "<", "e>", "c<e>ab"], [], [""], [letters(12), letters(7, "ab ")]):
        ids = list(mine.encode_iterable(texts))
        assert_equal(ids, [number for text in texts for number in right.encode(text)], what="the ids of encode_iterable")


# ---- robustness ------------------------------------------------------------------------------------------------------


@points(0.5, "robustness")
def test_text_is_left_as_it_is(learner, reference):
    """No blank, capital, accent or invisible character is lost or changed on the way to ids and back."""
    merges = [*pairs("a b", "T h", "c a"), (b"\xcc", b"\x81"), (b"e", b"\xcc\x81"), (b"\xc3", b"\xa9"), (b" ", b" ")]
    texts = [
        "  ab ab\n\n b ",
        "\tThe END\r\n",
        "caf\u00e9 cafe\u0301",
        "ﬁ ½ Å Å",
        "zero\u200bwidth\u00a0",
        "\x00\x01\ufffd",
        "İI ß",
    ]
    assert_encoded(learner, reference, merges, *texts, choice(SENTENCES), choice(SENTENCES), choice(ENGLISH))


@points(0.25, "robustness")
def test_bytes_that_are_no_text(learner, reference):
    """Half a character becomes U+FFFD, and what stands around it is kept."""
    mine, right = learner.Tokenizer(vocabulary([]), []), reference.Tokenizer(vocabulary([]), [])
    for ids in ([0xF0, 0x9F], [97, 0xC3, 98], [0xFF, 97], [0xA9], [0xE4, 0xB8, 0xE4, 0xB8, 0xAD], [0xC3, 0xA9, 0xC3]):
        assert_equal(mine.decode(ids), right.decode(ids), what="the decoded text")


@points(0.25, "robustness")
def test_any_iterable_is_read_once(learner, reference):
    """Documents, texts and ids may come from an iterator, which can be read only once."""
    a, b, c = names(3)
    documents = [a + b, f"{b}{c} {b}{c}<e>", "", c + a + b]
    vocab, merges = learned(learner.train_bpe(Stream(documents), 256 + 5, ("<e>",)))
    right_vocab, right_merges = reference.train_bpe(documents, 256 + 5, ["<e>"])
    assert_merges(merges, right_merges)
    assert_equal(vocab, right_vocab, what="vocab")
    assert_trained(learner, reference, tuple(documents), 256 + 4)
    mine = learner.Tokenizer(right_vocab, right_merges, ("<e>",))
    ids = reference.Tokenizer(right_vocab, right_merges, ["<e>"]).encode("".join(documents))
    assert_equal(mine.decode(Stream(ids)), "".join(documents), what="decode of an iterator")
    assert_equal(mine.decode(tuple(ids)), "".join(documents), what="decode of a tuple")


@points(0.5, "robustness")
def test_texts_are_read_when_they_are_needed(learner, reference):
    """encode_iterable reads at most one text ahead of the one whose ids it gives out, and encodes none before it is asked to."""
    merges = pairs("a b")
    vocab, texts = vocabulary(merges), ["abc", "cab", "bb", "abab", "aa", "cc"]
    mine, right = learner.Tokenizer(vocab, merges), reference.Tokenizer(vocab, merges)
    stream = Stream(texts)
    result = mine.encode_iterable(stream)
    if stream.pulled > 1:
        fail(f"{stream.pulled} of {len(texts)} texts were read before the first id was asked for")
    ids = iter(result)
    for place, text in enumerate(texts, start=1):
        for number in right.encode(text):
            assert_equal(next(ids, None), number, what=f"an id of text {place}")
            if stream.pulled > place + 1:
                fail(f"{stream.pulled} texts were read while the ids of text {place} were still being given out")
    assert_equal(next(ids, None), None, what="an id after the last text")
    try:
        mine.encode_iterable(Stream([7, 8]))  # no texts: to read one ahead is allowed, to encode it would fail
    except LearnerError:
        fail("encode_iterable encoded its first text before the first id was asked for")


@points(0.25, "robustness")
def test_tokenizers_know_nothing_of_each_other(fresh_learner, reference):
    """Two tokenizers, and two trainings, go side by side; the same call gives the same again."""
    one, two = pairs("a b", "ab c"), pairs("b c", "a bc")
    settings = [
        (vocabulary(one, ["<e>"]), one, ["<e>"]),
        (vocabulary(two, ["<e>"]), two),
        (vocabulary(one, ["<f>"]), one, ["<f>"]),
    ]
    mine = [fresh_learner.Tokenizer(*arguments) for arguments in settings]
    right = [reference.Tokenizer(*arguments) for arguments in settings]
    for text in ("abc<e>abc", "<f>ab", "abc<e>abc"):
        for ours, theirs in zip(mine, right, strict=True):
            assert_equal(ours.encode(text), theirs.encode(text), what=f"encode({text!r})")
    encode = fresh_learner.file("props").get_attribute(mine[0], "encode")
    for text in ("abc<e>abc", "cab"):
        again = fresh_learner.file("props").called_again(encode, text)
        assert_equal(again, right[0].encode(text), what=f"encode({text!r}), after the first list was changed by its receiver,")
    for documents, special_tokens in ((["abab"], ["<e>"]), (["cdcd", "cd"], []), (["abab"], []), (["abab"], ["<e>"])):
        assert_trained(fresh_learner, reference, documents, 256 + 2, special_tokens)


@points(0.25, "robustness")
def test_the_arguments_are_left_as_they_were(learner, reference):
    """Documents, special tokens, vocab and merges hold the same after all calls as before."""
    documents, special_tokens = ["abab<f>", "abc<e><e>"], ["<e>", "<e><e>", "<f>"]
    vocab, merges = reference.train_bpe(documents, 256 + 6, special_tokens)
    result = assert_arguments_unchanged(learner.train_bpe, documents, 256 + 6, special_tokens)
    assert_merges(learned(result)[1], merges)
    held = learner.Tokenizer.hold(vocab, merges, special_tokens)
    mine, right = learner.Tokenizer(*held), reference.Tokenizer(vocab, merges, special_tokens)
    assert_equal(mine.encode("abc<e>é<f>"), right.encode("abc<e>é<f>"), what="the ids")
    assert_equal(mine.decode(right.encode("ab<f>")), "ab<f>", what="the decoded text")
    for name, before, now in zip(("vocab", "merges", "special_tokens"), (vocab, merges, special_tokens), held, strict=True):
        assert_equal(now.fetch(), before, what=f"the caller's {name}, after Tokenizer was used,")


@points(0.25, "robustness")
def test_long_words(learner, reference):
    """A word of more than a thousand letters is a word like any other."""
    a, b, c = names(3)
    word = letters(40, a + b) + (a + b) * 1050 + c
    assert_encoded(learner, reference, pairs(f"{a} {a}", f"{a} {b}", f"{a}{a} {b}"), word)
    assert_trained(learner, reference, [word], 256 + 3)


@points(0.25, "robustness")
def test_a_special_token_that_is_not_passed_is_text(learner, reference):
    """Only the special tokens that Tokenizer is given are special; others in vocab are ordinary text."""
    merges = pairs("< e", "a b")
    vocab = vocabulary(merges, ["<e>", "<f>"])
    assert_encoded(learner, reference, merges, "ab<e>ab", "<f>", vocab=vocab)
    assert_encoded(learner, reference, merges, "ab<e>ab", "<f><e>", vocab=vocab, special_tokens=["<f>"])
    merges = pairs("E O", "a b")
    vocab = vocabulary(merges, ["EOT", " end"])
    assert_encoded(learner, reference, merges, "EOT", "ab EOT", "the end", vocab=vocab)
    assert_encoded(learner, reference, merges, "EOT", "the end EOT", vocab=vocab, special_tokens=[" end"])


@points(0.25, "robustness")
def test_a_vocabulary_that_is_too_small_is_refused(learner, reference):
    """Room for fewer than 256 bytes and all special tokens raises ValueError that names vocab_size and its value."""
    documents = ["abab", "<e>"]
    for special_tokens in ([], ["<e>"], ["<e>", "<f>", "<g>"]):
        room = 256 + len(special_tokens)
        assert_trained(learner, reference, documents, room, special_tokens)
        for size in (room - 1, 0, -300):
            assert_value_error(learner.train_bpe, documents, size, special_tokens, naming="vocab_size")


@points(0.25, "robustness")
def test_a_special_token_without_an_id_is_refused(learner, reference):
    """A special token that vocab does not have raises ValueError that names special_tokens and the token."""
    merges = pairs("a b")
    vocab = vocabulary(merges, ["<e>"])
    assert_encoded(learner, reference, merges, "ab<e>", vocab=vocab, special_tokens=["<e>"])
    for special_tokens in (["<pad>"], ["<e>", "<pad>"]):
        for naming in ("special_tokens", "<pad>"):
            assert_value_error(learner.Tokenizer, vocab, merges, special_tokens, naming=naming)


@points(0.25, "robustness")
def test_an_unknown_id_is_refused(learner, reference):
    """An id that vocab does not have raises ValueError that names ids and the id."""
    for vocab in (vocabulary([]), {2 * number + 1: token for number, token in vocabulary([]).items()}):
        mine = learner.Tokenizer(vocab, [])
        known = list(vocab)[97]
        assert_equal(mine.decode([known, known]), "aa", what="the decoded text")
        for unknown in (max(vocab) + 1, 5000, -1, *({2, 100} - set(vocab))):
            assert_value_error(mine.decode, [known, unknown], naming="ids", values=[unknown])


# ---- by hand, memory -------------------------------------------------------------------------------------------------


@points(0.5, "by_hand")
def test_the_tokenizer_is_written_by_hand(learner, reference, by_hand):
    """The right merges and ids, without a tokenizer library."""
    assert_trained(learner, reference, [letters(30, "ab ")], 256 + 6, ["<e>"])
    assert_encoded(learner, reference, pairs("a b", "ab a"), letters(10, "ab"))
    by_hand.assert_clean()


BLOCK = 1 << 16  # characters of a document


def large_documents(count: int, words: list[str]) -> Stream:
    """Documents of `BLOCK` characters, no two alike, made of few words; made one by one, when they are asked for."""

    def documents() -> Any:
        for number in range(count):
            line = " ".join(words[(number + index) % len(words)] for index in range(len(words)))
            yield f"{number} " + (line + "\n") * (BLOCK // len(line))

    return Stream(documents())


@points(1, "memory")
def test_documents_are_not_kept(learner, reference, peak_memory):
    """Five times as many documents take no more memory: each is counted and let go."""
    words = [letters(int(length), "abcdefgh") for length in randint(300, 600, 5)]
    assert_trained(learner, reference, [" ".join(words), words[1]], 256 + 3)
    count = 13 * len(words)
    learned(learner.train_bpe(large_documents(count // 5, words), 256 + 3))
    grown = peak_memory(learner.train_bpe, large_documents(count, words), 256 + 3)
    # Each kind of document once gives the same merges, since `count` are as many of each.
    mine, right = learned(grown.result.fetch()), reference.train_bpe(large_documents(len(words), words), 256 + 3)
    assert_merges(mine[1], right[1])
    assert_equal(mine[0], right[0], what="vocab")
    if grown > 1 << 20:
        fail(
            f"{count} documents of {count * BLOCK >> 20} MiB in all made memory grow by {grown / 2**20:.1f} MiB, although "
            f"{count // 5} like them had been read before: are whole documents kept?"
        )


# ---- speed -----------------------------------------------------------------------------------------------------------


def new_words(count: int) -> list[str]:
    """Words of seven letters."""
    return [letters(7, "etaoinshrdlu") for _ in range(count)]


@points(0.5, "speed")
def test_training_counts_distinct_pre_tokens(learner, judge):
    """A merge takes as long as the distinct pre-tokens: train_bpe does not go through every occurrence of a word each time."""
    judge(learner.train_bpe, lambda: ([" ".join(new_words(30) * judge.size)], 256 + 12))


@points(0.5, "speed")
def test_encoding_does_not_try_every_merge(learner, reference, judge):
    """Encoding looks at the pairs of a pre-token: it does not try on it every merge that was ever learned."""
    vocab, merges = reference.train_bpe([" ".join(new_words(400))], 256 + 400)
    judge(learner.file("props").encode_with, lambda: (vocab, merges, " ".join(new_words(judge.size))))
