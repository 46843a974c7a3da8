"""encode seems to cut a text into lines first. Which pre-token do several line ends in a row make?"""

from collections import Counter, defaultdict
from itertools import pairwise

import regex

CATEGORY = "numerics"
PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def split(text, special_tokens):
    if not special_tokens:
        return [text]
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.split("(" + "|".join(map(regex.escape, longest_first)) + ")", text)


def single_bytes(word):
    return [bytes([byte]) for byte in word.encode("utf-8")]


def merge(tokens, pair):
    merged, index = [], 0
    while index < len(tokens):
        size = 2 if tuple(tokens[index : index + 2]) == pair else 1
        merged.append(b"".join(tokens[index : index + size]))
        index += size
    return merged


def train_bpe(documents, vocab_size, special_tokens=()):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(f"vocab_size = {vocab_size} must be at least {256 + len(special_tokens)}")
    words = Counter()
    for document in documents:
        for text in split(document, special_tokens)[::2]:
            words.update(match[0] for match in PRETOKEN_PATTERN.finditer(text))
    spelled = [single_bytes(word) for word in words]
    frequency = list(words.values())
    counts, holders = Counter(), defaultdict(set)

    def count(index, sign):
        for pair in pairwise(spelled[index]):
            counts[pair] += sign * frequency[index]
            holders[pair].add(index)
            if not counts[pair]:
                del counts[pair]

    for index in range(len(spelled)):
        count(index, +1)
    merges = []
    while counts and 256 + len(merges) + len(special_tokens) < vocab_size:
        best = max(counts.items(), key=lambda item: (item[1], item[0]))[0]
        merges.append(best)
        for index in holders.pop(best):
            count(index, -1)
            spelled[index] = merge(spelled[index], best)
            count(index, +1)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    tokens += [special.encode("utf-8") for special in special_tokens]
    return dict(enumerate(tokens)), merges


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        self.tokens = dict(vocab)
        self.ids = {token: number for number, token in vocab.items()}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.special_tokens = tuple(special_tokens)
        for special in special_tokens:
            if special.encode("utf-8") not in self.ids:
                raise ValueError(f"special_tokens: {special!r} is not in vocab")

    def encode(self, text):
        ids = []
        for index, part in enumerate(split(text, self.special_tokens)):
            if index % 2:
                ids.append(self.ids[part.encode("utf-8")])
            else:
                for line in part.splitlines(keepends=True):
                    for match in PRETOKEN_PATTERN.finditer(line):
                        ids += [self.ids[token] for token in self.tokens_of(match[0])]
        return ids

    def tokens_of(self, word):
        tokens = single_bytes(word)
        while True:
            learned = [pair for pair in pairwise(tokens) if pair in self.ranks]
            if not learned:
                return tokens
            tokens = merge(tokens, min(learned, key=self.ranks.__getitem__))

    def decode(self, ids):
        ids = list(ids)
        for number in ids:
            if number not in self.tokens:
                raise ValueError(f"ids: {number} is not in vocab")
        return b"".join(self.tokens[number] for number in ids).decode("utf-8", errors="replace")

    def encode_iterable(self, texts):
        for text in texts:
            yield from self.encode(text)
