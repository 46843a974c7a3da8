"""Training counts every pair anew before each merge; encoding makes the merges in the order of training, one after the other."""

from collections import Counter

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def cut(text, special_tokens):
    """(piece, is it special?) from left to right, without a pattern."""
    start = place = 0
    while special_tokens and place < len(text):
        here = [special for special in special_tokens if text.startswith(special, place)]
        if here:
            longest = max(here, key=len)
            yield text[start:place], False
            yield longest, True
            place += len(longest)
            start = place
        else:
            place += 1
    yield text[start:], False


def join(tokens, left, right):
    result = []
    for token in tokens:
        if result and result[-1] == left and token == right and not (left == right and joined_last):
            result[-1] = left + right
            joined_last = True
        else:
            result.append(token)
            joined_last = False
    return tuple(result)


def train_bpe(documents, vocab_size, special_tokens=()):
    smallest = 256 + len(special_tokens)
    if vocab_size < smallest:
        raise ValueError(f"vocab_size must be at least {smallest}, not {vocab_size}")
    words = Counter()
    for document in documents:
        for piece, is_special in cut(document, special_tokens):
            if not is_special:
                for word in regex.findall(PRETOKEN_PATTERN, piece):
                    words[tuple(bytes((byte,)) for byte in word.encode())] += 1
    merges = []
    for _ in range(vocab_size - smallest):
        counts = Counter()
        for word, times in words.items():
            for pair in zip(word, word[1:]):
                counts[pair] += times
        if not counts:
            break
        most = max(counts.values())
        pair = max(pair for pair, count in counts.items() if count == most)
        merges.append(pair)
        joined = Counter()
        for word, times in words.items():
            joined[join(word, *pair)] += times
        words = joined
    vocab = {byte: bytes((byte,)) for byte in range(256)}
    for left, right in merges:
        vocab[len(vocab)] = left + right
    for special in special_tokens:
        vocab[len(vocab)] = special.encode()
    return vocab, merges


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        self.vocab, self.merges, self.special_tokens = vocab, merges, special_tokens
        self.numbers = {token: number for number, token in vocab.items()}
        for special in special_tokens:
            if special.encode() not in self.numbers:
                raise ValueError(f"{special} of special_tokens has no id in vocab")

    def encode(self, text):
        ids = []
        for piece, is_special in cut(text, self.special_tokens):
            if is_special:
                ids.append(self.numbers[piece.encode()])
                continue
            for word in regex.findall(PRETOKEN_PATTERN, piece):
                tokens = tuple(bytes((byte,)) for byte in word.encode())
                for left, right in self.merges:
                    if left in tokens and right in tokens:
                        tokens = join(tokens, left, right)
                ids.extend(map(self.numbers.__getitem__, tokens))
        return ids

    def decode(self, ids):
        data = bytearray()
        for number in ids:
            if number not in self.vocab:
                raise ValueError(f"there is no token {number}, so ids cannot be decoded")
            data += self.vocab[number]
        return str(data, "utf-8", "replace")

    def encode_iterable(self, texts):
        for text in texts:
            for number in self.encode(text):
                yield number
