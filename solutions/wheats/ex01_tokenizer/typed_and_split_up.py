"""Many small classes with types; special tokens in a table by their first character; decoding with an incremental decoder."""

from __future__ import annotations

import codecs
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class Piece:
    text: str
    special: bool = False


@dataclass
class Specials:
    by_first: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Specials:
        table = defaultdict(list)
        for token in tokens:
            table[token[0]].append(token)
        return cls({first: sorted(some, key=len, reverse=True) for first, some in table.items()})

    def at(self, text: str, place: int) -> str | None:
        for token in self.by_first.get(text[place], ()):
            if text.startswith(token, place):
                return token
        return None

    def pieces(self, text: str) -> Iterator[Piece]:
        start = place = 0
        while self.by_first and place < len(text):
            token = self.at(text, place)
            if token is None:
                place += 1
                continue
            if start < place:
                yield Piece(text[start:place])
            yield Piece(token, special=True)
            start = place = place + len(token)
        if start < len(text):
            yield Piece(text[start:])


@dataclass
class Word:
    tokens: list[bytes]
    count: int

    def pairs(self) -> Counter[Pair]:
        found: Counter[Pair] = Counter()
        for place in range(1, len(self.tokens)):
            found[self.tokens[place - 1], self.tokens[place]] += self.count
        return found

    def join(self, pair: Pair) -> None:
        place = 0
        while place + 1 < len(self.tokens):
            if (self.tokens[place], self.tokens[place + 1]) == pair:
                self.tokens[place : place + 2] = [pair[0] + pair[1]]
            place += 1


class Trainer:
    def __init__(self, documents: Iterable[str], specials: Specials) -> None:
        seen: Counter[str] = Counter()
        for document in documents:
            for piece in specials.pieces(document):
                if not piece.special:
                    seen.update(piece_match.group() for piece_match in PRETOKEN_PATTERN.finditer(piece.text))
        self.words = [Word([text.encode()[i : i + 1] for i in range(len(text.encode()))], n) for text, n in seen.items()]
        self.total: Counter[Pair] = Counter()
        for word in self.words:
            self.total.update(word.pairs())

    def best(self) -> Pair | None:
        live = [(count, pair) for pair, count in self.total.items() if count > 0]
        return max(live)[1] if live else None

    def join(self, pair: Pair) -> None:
        for word in self.words:
            before = word.pairs()
            if pair in before:
                word.join(pair)
                self.total.subtract(before)
                self.total.update(word.pairs())


def train_bpe(
    documents: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = ()
) -> tuple[dict[int, bytes], list[Pair]]:
    if 256 + len(special_tokens) > vocab_size:
        raise ValueError(f"{vocab_size = } does not hold 256 bytes and {len(special_tokens)} special tokens")
    trainer = Trainer(documents, Specials.of(special_tokens))
    merges: list[Pair] = []
    while 256 + len(merges) + len(special_tokens) < vocab_size and (pair := trainer.best()):
        merges.append(pair)
        trainer.join(pair)
    ordered = [*(bytes([b]) for b in range(256)), *(a + b for a, b in merges), *(s.encode() for s in special_tokens)]
    return dict(enumerate(ordered)), merges


class Tokenizer:
    def __init__(self, vocab: Mapping[int, bytes], merges: Sequence[Pair], special_tokens: Sequence[str] = ()) -> None:
        self._vocab = dict(vocab)
        self._inverse = dict(zip(self._vocab.values(), self._vocab.keys()))
        for token in special_tokens:
            if token.encode() not in self._inverse:
                raise ValueError(f"vocab has no id for {token!r} of special_tokens")
        self._specials = Specials.of(special_tokens)
        self._rank = {tuple(pair): rank for rank, pair in enumerate(merges)}

    def encode(self, text: str) -> list[int]:
        return list(self._ids(text))

    def _ids(self, text: str) -> Iterator[int]:
        for piece in self._specials.pieces(text):
            if piece.special:
                yield self._inverse[piece.text.encode()]
                continue
            for match in PRETOKEN_PATTERN.finditer(piece.text):
                data = match.group().encode()
                word = Word([data[i : i + 1] for i in range(len(data))], 1)
                while candidates := word.pairs().keys() & self._rank.keys():
                    word.join(min(candidates, key=self._rank.get))
                yield from (self._inverse[token] for token in word.tokens)

    def decode(self, ids: Iterable[int]) -> str:
        decoder, text = codecs.getincrementaldecoder("utf-8")(errors="replace"), []
        for number in ids:
            if number not in self._vocab:
                raise ValueError(f"{number} is not among the ids of vocab")
            text.append(decoder.decode(self._vocab[number]))
        return "".join(text) + decoder.decode(b"", final=True)

    def encode_iterable(self, texts: Iterable[str]) -> Iterator[int]:
        return (number for text in texts for number in self._ids(text))
