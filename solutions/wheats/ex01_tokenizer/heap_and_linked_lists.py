"""Priority queues: training takes the best pair from a heap whose old entries are ignored; words are chains of neighbours, in
training and in encoding.
"""

import heapq
from collections import defaultdict

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


class Backwards:
    """A pair that is smaller when its bytes are greater."""

    def __init__(self, pair):
        self.pair = pair

    def __lt__(self, other):
        return self.pair > other.pair


def pieces(text, special_tokens):
    if special_tokens:
        pattern = "|".join(map(regex.escape, sorted(special_tokens, key=len, reverse=True)))
        place = 0
        for match in regex.finditer(pattern, text):
            yield False, text[place : match.start()]
            yield True, match.group()
            place = match.end()
        text = text[place:]
    yield False, text


def train_bpe(documents, vocab_size, special_tokens=()):
    room = vocab_size - 256 - len(special_tokens)
    if room < 0:
        raise ValueError(f"vocab_size={vocab_size} leaves no room: {-room} too few")
    weights = defaultdict(int)
    for document in documents:
        for special, text in pieces(document, special_tokens):
            if not special:
                for match in PRETOKEN_PATTERN.finditer(text):
                    weights[match[0].encode()] += 1
    token, before, after, weight = [], [], [], []  # one entry for each byte of each word
    for word, count in weights.items():
        start, end = len(token), len(token) + len(word) - 1
        for place in range(start, end + 1):
            token.append(word[place - start : place - start + 1])
            before.append(place - 1 if place > start else -1)
            after.append(place + 1 if place < end else -1)
            weight.append(count)
    counts, places = defaultdict(int), defaultdict(set)
    for place in range(len(token)):
        if after[place] >= 0:
            pair = token[place], token[after[place]]
            counts[pair] += weight[place]
            places[pair].add(place)
    heap = [(-count, Backwards(pair)) for pair, count in counts.items()]
    heapq.heapify(heap)
    merges = []

    def change(place, by):
        if place < 0 or after[place] < 0:
            return
        pair = token[place], token[after[place]]
        counts[pair] += by * weight[place]
        if by > 0:
            places[pair].add(place)
        if counts[pair]:
            heapq.heappush(heap, (-counts[pair], Backwards(pair)))

    while heap and len(merges) < room:
        count, entry = heapq.heappop(heap)
        pair = entry.pair
        if counts[pair] != -count:
            continue
        merges.append(pair)
        for place in sorted(places.pop(pair)):
            follower = after[place]
            if token[place] != pair[0] or follower < 0 or token[follower] != pair[1]:
                continue
            change(before[place], -1)
            change(place, -1)
            change(follower, -1)
            token[place] += token[follower]
            token[follower] = None
            after[place] = after[follower]
            after[follower] = -1
            if after[place] >= 0:
                before[after[place]] = place
            change(before[place], +1)
            change(place, +1)
        counts.pop(pair, None)
    names = [bytes([byte]) for byte in range(256)]
    names += [left + right for left, right in merges]
    names += [special.encode() for special in special_tokens]
    return {number: name for number, name in enumerate(names)}, merges


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        self.vocab, self.special_tokens = vocab.copy(), list(special_tokens)
        self.number = {name: number for number, name in vocab.items()}
        self.rank = dict(zip(merges, range(len(merges))))
        for special in self.special_tokens:
            if special.encode() not in self.number:
                raise ValueError("special_tokens: vocab lacks " + special)

    def encode(self, text):
        ids = []
        for special, part in pieces(text, self.special_tokens):
            if special:
                ids.append(self.number[part.encode()])
            else:
                for match in PRETOKEN_PATTERN.finditer(part):
                    ids.extend(self.number[name] for name in self.chain(match[0].encode()))
        return ids

    def chain(self, word):
        token = [word[place : place + 1] for place in range(len(word))]
        after = [*range(1, len(word)), len(word)]
        before = [*range(-1, len(word) - 1)]
        heap = []

        def offer(place):
            if 0 <= place and after[place] < len(word):
                pair = token[place], token[after[place]]
                if pair in self.rank:
                    heapq.heappush(heap, (self.rank[pair], place, pair))

        for place in range(len(word)):
            offer(place)
        while heap:
            _, place, pair = heapq.heappop(heap)
            follower = after[place]
            if token[place] != pair[0] or follower >= len(word) or token[follower] != pair[1]:
                continue
            token[place], token[follower] = token[place] + token[follower], None
            after[place] = after[follower]
            if after[place] < len(word):
                before[after[place]] = place
            offer(before[place])
            offer(place)
        return [name for name in token if name is not None]

    def decode(self, ids):
        found = []
        for number in ids:
            name = self.vocab.get(number)
            if name is None:
                raise ValueError(f"ids must come from vocab; {number} does not")
            found.append(name)
        return b"".join(found).decode("utf-8", errors="replace")

    def encode_iterable(self, texts):
        for text in texts:
            yield from self.encode(text)
