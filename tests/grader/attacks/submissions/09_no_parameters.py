"""A module that lies about its parameters, swallows what is loaded into it and has properties that raise."""
import torch


class Scale(torch.nn.Module):
    def __init__(self, size):
        super().__init__()

    def load_state_dict(self, *arguments, **keywords):
        return None

    def state_dict(self, *arguments, **keywords):
        return {"weight": "a string", 1: None}

    def named_parameters(self, *arguments, **keywords):
        while True:
            yield "weight", torch.nn.Parameter(torch.ones(7))

    def named_buffers(self, *arguments, **keywords):
        raise SystemExit(0)

    def train(self, mode=True):
        raise KeyboardInterrupt

    def __call__(self, x):
        return x.sum()


def count_up(stop):
    yield "a"
    yield None


def total(numbers):
    return str(sum(numbers))
