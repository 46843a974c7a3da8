"""Works on ids throughout, as lists of ints; bytes are only looked at to settle ties and at the very end."""

from collections import defaultdict

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def replace(ids, pair, number):
    result, place = [], 0
    while place < len(ids):
        if place + 1 < len(ids) and (ids[place], ids[place + 1]) == pair:
            result.append(number)
            place += 2
        else:
            result.append(ids[place])
            place += 1
    return result


def ordinary(text, special_tokens):
    if not special_tokens:
        return [text]
    pattern = "|".join(regex.escape(special) for special in sorted(special_tokens, key=lambda special: -len(special)))
    return regex.split(pattern, text)


def train_bpe(documents, vocab_size, special_tokens=()):
    special_tokens = list(special_tokens)
    if vocab_size - 256 - len(special_tokens) < 0:
        raise ValueError(f"vocab_size {vocab_size} < 256 + {len(special_tokens)} special tokens")
    times = defaultdict(int)
    for document in documents:
        for text in ordinary(document, special_tokens):
            for match in regex.finditer(PRETOKEN_PATTERN, text):
                times[match.group()] += 1
    words = [(list(word.encode("utf-8")), count) for word, count in times.items()]
    vocab = {number: bytes([number]) for number in range(256)}
    merges = []
    while len(vocab) + len(special_tokens) < vocab_size:
        counts = defaultdict(int)
        for ids, count in words:
            for left, right in zip(ids[:-1], ids[1:]):
                counts[left, right] += count
        if len(counts) == 0:
            break
        best = max(counts, key=lambda pair: (counts[pair], vocab[pair[0]], vocab[pair[1]]))
        number = len(vocab)
        vocab[number] = vocab[best[0]] + vocab[best[1]]
        merges.append((vocab[best[0]], vocab[best[1]]))
        words = [(replace(ids, best, number), count) for ids, count in words]
    for special in special_tokens:
        vocab[len(vocab)] = special.encode("utf-8")
    return vocab, merges


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        number = {token: one for one, token in vocab.items()}
        missing = [special for special in special_tokens if special.encode("utf-8") not in number]
        if missing:
            raise ValueError(f"special_tokens that are not in vocab: {missing}")
        self.vocab = vocab
        self.byte = [number[bytes([byte])] for byte in range(256)]
        self.rules = {}
        for rank, (left, right) in enumerate(merges):
            self.rules[number[left], number[right]] = (rank, number[left + right])
        self.special = {special: number[special.encode("utf-8")] for special in special_tokens}

    def encode(self, text):
        if not self.special:
            return self.encode_ordinary(text)
        longest = sorted(self.special, key=len)[::-1]
        ids = []
        for part in regex.splititer("(" + "|".join(regex.escape(special) for special in longest) + ")", text):
            ids += [self.special[part]] if part in self.special else self.encode_ordinary(part)
        return ids

    def encode_ordinary(self, text):
        result = []
        for match in regex.finditer(PRETOKEN_PATTERN, text):
            ids = [self.byte[byte] for byte in match.group().encode("utf-8")]
            while len(ids) > 1:
                places = [place for place in range(len(ids) - 1) if (ids[place], ids[place + 1]) in self.rules]
                if not places:
                    break
                place = min(places, key=lambda place: (self.rules[ids[place], ids[place + 1]][0], place))
                ids[place : place + 2] = [self.rules[ids[place], ids[place + 1]][1]]
            result += ids
        return result

    def decode(self, ids):
        try:
            return b"".join([self.vocab[number] for number in ids]).decode("utf-8", "replace")
        except KeyError as error:
            raise ValueError(f"ids holds {error.args[0]}, which vocab does not know") from None

    def encode_iterable(self, texts):
        return (number for text in texts for number in self.encode(text))
