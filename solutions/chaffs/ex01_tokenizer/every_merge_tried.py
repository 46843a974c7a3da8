"""Encoding seems to try every learned merge on every pre-token. Which pairs can be joined in it at all?"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import regex

CATEGORY = "speed"

# Given: GPT-2's pre-tokens. An English ending such as 's or 'll; letters, digits or other signs, each with the blank before
# them if there is one; white space. `PRETOKEN_PATTERN.finditer(text)` finds them one after the other: "I've  2 dogs" is cut
# into "I", "'ve", " ", " 2", " dogs". Put together again they are the whole text.
PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def _split(text: str, special_tokens: Sequence[str]) -> list[str]:
    """Ordinary text and special tokens in turn: text, special, text, ..., text. Text may be empty."""
    if not special_tokens:
        return [text]
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.split("(" + "|".join(map(regex.escape, longest_first)) + ")", text)


def _single_bytes(text: str) -> list[bytes]:
    """The UTF-8 bytes of a pre-token, one by one."""
    return [bytes([byte]) for byte in text.encode("utf-8")]


def _merge(tokens: list[bytes], pair: tuple[bytes, bytes]) -> list[bytes]:
    """The tokens of a pre-token with every occurrence of `pair`, from the left, joined into one."""
    merged, index = [], 0
    while index < len(tokens):
        size = 2 if tuple(tokens[index : index + 2]) == pair else 1
        merged.append(b"".join(tokens[index : index + size]))
        index += size
    return merged


def train_bpe(
    documents: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = ()
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Learn which neighbours to join: again and again the most frequent pair of tokens becomes one new token."""
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(
            f"vocab_size = {vocab_size} has no room for 256 bytes and {len(special_tokens)} special tokens: "
            f"at least {256 + len(special_tokens)}"
        )
    words: Counter[str] = Counter()  # distinct pre-tokens; their number hardly grows once the language is known
    for document in documents:
        for text in _split(document, special_tokens)[::2]:
            words.update(match[0] for match in PRETOKEN_PATTERN.finditer(text))

    spelled = [_single_bytes(word) for word in words]
    frequency = list(words.values())
    counts: Counter[tuple[bytes, bytes]] = Counter()
    holders: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)  # pair -> words that hold it, or once did

    def count(index: int, sign: int) -> None:
        for pair in pairwise(spelled[index]):
            counts[pair] += sign * frequency[index]
            holders[pair].add(index)
            if not counts[pair]:
                del counts[pair]

    for index in range(len(spelled)):
        count(index, +1)
    merges: list[tuple[bytes, bytes]] = []
    while counts and 256 + len(merges) + len(special_tokens) < vocab_size:
        best = max(counts.items(), key=lambda item: (item[1], item[0]))[0]
        merges.append(best)
        for index in holders.pop(best):  # only words that hold the pair change, and only their pairs are counted again
            count(index, -1)
            spelled[index] = _merge(spelled[index], best)
            count(index, +1)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    tokens += [special.encode("utf-8") for special in special_tokens]
    return dict(enumerate(tokens)), merges


class Tokenizer:
    """Turns text into ids and ids into text, with a vocabulary and merges as `train_bpe` returns them."""

    def __init__(self, vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], special_tokens: Sequence[str] = ()) -> None:
        self._tokens = dict(vocab)
        self._ids = {token: number for number, token in vocab.items()}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._special_tokens = tuple(special_tokens)
        for special in special_tokens:
            if special.encode("utf-8") not in self._ids:
                raise ValueError(f"special_tokens: {special!r} is not in vocab")

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ids: list[int] = []
        for index, part in enumerate(_split(text, self._special_tokens)):
            if index % 2:
                ids.append(self._ids[part.encode("utf-8")])
            else:
                ids += (self._ids[token] for match in PRETOKEN_PATTERN.finditer(part) for token in self._tokens_of(match[0]))
        return ids

    def _tokens_of(self, word: str) -> list[bytes]:
        """The tokens of one pre-token."""
        tokens = _single_bytes(word)
        for pair in self._ranks:
            tokens = _merge(tokens, pair)
        return tokens

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: the bytes of all of them are joined, then decoded as UTF-8, once."""
        ids = list(ids)
        for number in ids:
            if number not in self._tokens:
                raise ValueError(f"ids: {number} is not in vocab")
        return b"".join(self._tokens[number] for number in ids).decode("utf-8", errors="replace")

    def encode_iterable(self, texts: Iterable[str]) -> Iterator[int]:
        """The ids of many texts, one id at a time, as if each text were encoded alone: `encode(one) + encode(two) + ...`."""
        for text in texts:
            yield from self.encode(text)
