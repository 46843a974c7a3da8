"""`train_bpe` and `Tokenizer` against the tokenizers library, and against a plain recount that anybody can read.

The library settles ties in another way, so trainings are compared only on texts that have none on the way.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Theirs

from solutions.ex01_tokenizer import PRETOKEN_PATTERN, Tokenizer, train_bpe
from solutions.text import SENTENCES, documents


def printable() -> dict[int, str]:
    """GPT-2's letters for bytes, which the library shows tokens in."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    return letters | {byte: chr(256 + place) for place, byte in enumerate(byte for byte in range(256) if byte not in shown)}


PRINTABLE = printable()


def show(token: bytes) -> str:
    return "".join(PRINTABLE[byte] for byte in token)


def byte_level(model: models.BPE) -> Theirs:
    theirs = Theirs(model)
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.decoder = decoders.ByteLevel()
    return theirs


def recount(texts: list[str], number: int) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Merges by counting everything anew each time, and whether any of them was a tie."""
    words = Counter(match[0].encode() for text in texts for match in PRETOKEN_PATTERN.finditer(text))
    spelled = {word: [bytes([byte]) for byte in word] for word in words}
    merges, tied = [], False
    for _ in range(number):
        counts: Counter[tuple[bytes, bytes]] = Counter()
        for word, tokens in spelled.items():
            for pair in pairwise(tokens):
                counts[pair] += words[word]
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], pair))
        tied |= list(counts.values()).count(counts[best]) > 1
        merges.append(best)
        for tokens in spelled.values():
            place = 0
            while place + 1 < len(tokens):
                if tokens[place : place + 2] == list(best):
                    tokens[place : place + 2] = [best[0] + best[1]]
                place += 1
    return merges, tied


def without_ties(chance: random.Random) -> tuple[list[str], int]:
    """Documents, and how many merges can be learned from them before two pairs are equally frequent."""
    texts = [" ".join("".join(chance.choices("abcdeé", [8, 5, 3, 2, 1, 1], k=chance.randint(1, 7))) for _ in range(150))]
    number = 1
    while not recount(texts, number)[1]:
        number += 1
    return texts, number - 1


def test_the_pattern_is_the_librarys():
    theirs = pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in (*SENTENCES, *documents()[:5], "I've  2 dogs, they'll\n\n \t see\u00a0it's ½²３ ٣ x_1 ... 'S 'LL  "):
        pieces = [text[start:end] for _, (start, end) in theirs.pre_tokenize_str(text)]
        assert [match[0] for match in PRETOKEN_PATTERN.finditer(text)] == pieces and "".join(pieces) == text


def test_trainings_without_ties():
    chance, merges_seen = random.Random(1), 0
    for _ in range(12):
        texts, number = without_ties(chance)
        theirs = byte_level(models.BPE())
        alphabet = [PRINTABLE[byte] for byte in range(256)]
        trainer = trainers.BpeTrainer(
            vocab_size=256 + number, initial_alphabet=alphabet, min_frequency=0, show_progress=False, special_tokens=[]
        )
        theirs.train_from_iterator(texts, trainer)
        learned = [token for token, _ in sorted(theirs.get_vocab().items(), key=lambda item: item[1])][256:]
        vocab, merges = train_bpe(texts, 256 + number)
        assert [show(left + right) for left, right in merges] == learned
        assert [show(vocab[256 + rank]) for rank in range(number)] == learned
        merges_seen += number
    assert merges_seen > 60


@pytest.mark.parametrize("alphabet", ["ab", "ab ", "abcé中 '\n"])
def test_trainings_against_a_recount(alphabet):
    chance = random.Random(alphabet)
    for _ in range(40):
        texts = ["".join(chance.choices(alphabet, k=chance.randint(0, 60))) for _ in range(3)]
        assert train_bpe(texts, 256 + 30)[1] == recount(texts, 30)[0]


@pytest.fixture(scope="module")
def trained():
    special_tokens = ["<|endoftext|>", "<|im|>", "<|im|>ab", "[x]+"]
    texts = [*documents()[::20], *SENTENCES]
    vocab, merges = train_bpe(texts, 256 + 300 + len(special_tokens), special_tokens)
    assert len(merges) == 300 and len(set(vocab.values())) == len(vocab)
    names = {show(token): number for number, token in list(vocab.items())[:556]}
    theirs = byte_level(models.BPE(names, [(show(left), show(right)) for left, right in merges]))
    theirs.add_special_tokens([AddedToken(special, normalized=False) for special in special_tokens])
    assert theirs.get_vocab_size() == len(vocab)
    return Tokenizer(vocab, merges, special_tokens), theirs


def test_ids_are_the_librarys(trained):
    ours, theirs = trained
    chance = random.Random(0)
    texts = [
        *documents()[::9],
        *SENTENCES,
        "",
        " ",
        "\n",
        "a<|im|>ab<|endoftext|>.<|im|>[x]+[x]",
        " <|im|> ",
        "<|im|><|im|>ab<|im|>a",
    ]
    texts += ["".join(chance.choices("ab the\n中é'sx[]+|<>im", k=60)) for _ in range(200)]
    for text in texts:
        ids = theirs.encode(text).ids
        assert ours.encode(text) == ids
        assert ours.decode(ids) == text == theirs.decode(ids, skip_special_tokens=False)


def test_ids_one_by_one(trained):
    ours, theirs = trained
    texts = ["one text<|im|>", "", "<|im", "|>another 中", *SENTENCES]
    assert list(ours.encode_iterable(iter(texts))) == [number for text in texts for number in theirs.encode(text).ids]


def test_broken_characters(trained):
    ours, _ = trained
    chance = random.Random(2)
    for _ in range(300):
        data = bytes(chance.choices([0x41, 0x80, 0xA9, 0xBF, 0xC3, 0xE4, 0xB8, 0xF0, 0x9F, 0xFF], k=chance.randint(0, 9)))
        assert ours.decode(data) == data.decode("utf-8", errors="replace")


def test_special_tokens_are_found_as_by_a_walk_over_the_text():
    chance = random.Random(3)
    for _ in range(300):
        special_tokens = list({"".join(chance.choices("ab.*|(", k=chance.randint(2, 4))) for _ in range(3)})
        text = "".join(chance.choices("ab.*|(", k=30))
        vocab, merges = train_bpe([], 256 + len(special_tokens), special_tokens)
        right, place = [], 0
        while place < len(text):
            here = [special for special in special_tokens if text.startswith(special, place)]
            longest = max(here, key=len, default=text[place])
            right.append(256 + special_tokens.index(longest) if here else ord(longest))
            place += len(longest)
        assert Tokenizer(vocab, merges, special_tokens).encode(text) == right


def test_the_order_of_documents_does_not_matter():
    texts = [*SENTENCES, "zz ab zz ab ba"]
    one = train_bpe(texts, 256 + 80)
    assert train_bpe(texts[::-1], 256 + 80) == one
    assert train_bpe(random.Random(0).sample(texts, len(texts)), 256 + 80) == one


def test_incremental_counts_hold_in_real_text():
    texts = documents()[::40]
    assert train_bpe(texts, 256 + 60)[1] == recount(texts, 60)[0]
