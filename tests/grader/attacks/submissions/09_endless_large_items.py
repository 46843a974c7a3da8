"""A generator of large items without end, which fills the memory of whoever collects them."""
import torch


class Scale(torch.nn.Module):
    pass


def count_up(stop):
    item = torch.zeros(50 << 20, dtype=torch.uint8)
    while True:
        yield item


def total(numbers):
    return 1
