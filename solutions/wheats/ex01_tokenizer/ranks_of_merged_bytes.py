"""Ranks belong to the merged bytes, not to the pair; words that were met before are remembered, in each tokenizer for itself; ids are
given out by an iterator object that reads one text ahead.
"""

import functools
import re
from collections import Counter

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def split(text, special_tokens):
    specials = sorted(special_tokens, key=len, reverse=True)
    if not specials:
        return [text]
    return re.split(f"({'|'.join(re.escape(special) for special in specials)})", text)


def neighbours(word):
    return [(word[place], word[place + 1]) for place in range(len(word) - 1)]


def train_bpe(documents, vocab_size, special_tokens=()):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError("vocab_size is %d, but %d is the least" % (vocab_size, 256 + len(special_tokens)))
    table = Counter()
    for document in iter(documents):
        for position, text in enumerate(split(document, special_tokens)):
            if position % 2 == 0:
                table.update(PRETOKEN_PATTERN.findall(text))
    words = {word: [bytes([byte]) for byte in word.encode("utf-8")] for word in table}
    counts = Counter()
    for word, tokens in words.items():
        for pair in neighbours(tokens):
            counts[pair] += table[word]
    merges = []
    while len(merges) + 256 + len(special_tokens) < vocab_size:
        counts = +counts
        if not counts:
            break
        left, right = max((count, pair) for pair, count in counts.items())[1]
        merges.append((left, right))
        for word, tokens in words.items():
            if (left, right) not in neighbours(tokens):
                continue
            counts.subtract({pair: times * table[word] for pair, times in Counter(neighbours(tokens)).items()})
            place = 0
            while place < len(tokens) - 1:
                if tokens[place] == left and tokens[place + 1] == right:
                    tokens[place : place + 2] = [left + right]
                place += 1
            counts.update({pair: times * table[word] for pair, times in Counter(neighbours(tokens)).items()})
    everything = [bytes([byte]) for byte in range(256)]
    everything.extend(left + right for left, right in merges)
    everything.extend(special.encode("utf-8") for special in special_tokens)
    return dict(zip(range(len(everything)), everything)), merges


class OneAhead:
    """An iterator over ids that has always read the next text already."""

    def __init__(self, tokenizer, texts):
        self.tokenizer, self.texts, self.ids = tokenizer, iter(texts), []
        self.next_text = next(self.texts, None)

    def __iter__(self):
        return self

    def __next__(self):
        while not self.ids:
            if self.next_text is None:
                raise StopIteration
            self.ids = self.tokenizer.encode(self.next_text)[::-1]
            self.next_text = next(self.texts, None)
        return self.ids.pop()


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        self.tokens = vocab
        self.numbers = {}
        for number, token in vocab.items():
            self.numbers[token] = number
        for special in special_tokens:
            if special.encode("utf-8") not in self.numbers:
                raise ValueError(f"Tokenizer: special_tokens holds {special}, vocab does not")
        self.ranks = {}
        for left, right in merges:
            self.ranks.setdefault(left + right, len(self.ranks))
        self.specials = frozenset(special_tokens)
        self.word = functools.lru_cache(maxsize=None)(self._word)

    def _word(self, word):
        tokens = [bytes([byte]) for byte in word.encode("utf-8")]
        while True:
            best = None
            for place in range(len(tokens) - 1):
                rank = self.ranks.get(tokens[place] + tokens[place + 1])
                if rank is not None and (best is None or rank < best[0]):
                    best = rank, place
            if best is None:
                return tuple(self.numbers[token] for token in tokens)
            place = best[1]
            tokens = tokens[:place] + [tokens[place] + tokens[place + 1]] + tokens[place + 2 :]

    def encode(self, text):
        ids = []
        for part in split(text, self.specials):
            if part in self.specials:
                ids.append(self.numbers[part.encode("utf-8")])
            else:
                for word in PRETOKEN_PATTERN.findall(part):
                    ids.extend(self.word(word))
        return ids

    def decode(self, ids):
        ids = tuple(ids)
        unknown = set(ids) - set(self.tokens)
        if unknown:
            raise ValueError(f"unknown ids: {sorted(unknown)}")
        return b"".join(map(self.tokens.get, ids)).decode(errors="replace")

    def encode_iterable(self, texts):
        return OneAhead(self, texts)
