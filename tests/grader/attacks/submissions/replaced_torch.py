"""Puts something else in torch's place in sys.modules, and empties its namespace."""
import sys

import torch

sys.modules["torch"] = sys.modules["torch.nn"] = None
for name in ("Tensor", "no_grad", "enable_grad", "strided", "uint8", "dtype", "device", "autograd", "_C"):
    delattr(torch, name)


def repeat_kv(x, n_rep):
    return x
