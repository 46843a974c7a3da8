"""Answers every question with another kind of thing that is no tensor, or no tensor with bytes of its own."""
import torch

ANSWERS = [
    None, True, 10**400, -(2**63), 1e308, float("nan"), "\ud800", "x" * 10**6, b"\0" * 10**6, 1j, ..., NotImplemented, object, int,
    torch.float32, torch.device("meta"), torch, lambda: None, iter(()), (i for i in range(3)), torch.nn.Linear(2, 2), Exception("an answer"),
    torch.eye(3).to_sparse(), torch.empty(3, device="meta"), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    torch.empty(0, 2**30, 2**30), torch.ones((1,) * 40), torch.ones(2, dtype=torch.complex32), torch.zeros(3).expand(2**30, 3),
    {float("nan"): 1, (1, (2, 3)): 2, True: 3, torch.ones(2): 4, None: 5}, [[[[]]]], {"t": ["float32", [2, 5, 12, 8], 0]}, {"h": [1, "module", "x"]},
]
count = -1


def repeat_kv(x, n_rep):
    global count
    count += 1
    return ANSWERS[count % len(ANSWERS)]


def __getattr__(name):
    raise SystemExit(0)
