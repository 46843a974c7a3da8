"""Answers questions about modules with values of another structure than the question has."""
from grader.sandbox import executor

VALUES = [None, 1, "weight", [], (), {}, {"weight": 1}, {"weight": ()}, {"weight": (1, 2, 3)}, {"weight": ((7,), "float32", True)}, {1: ((7,), None, 2)},
          (None, None, None), (1, [], {}), (1, [1], {}), (1, [None], {"weight": "x"}), {"weight": ((float("nan"),), executor.torch.float32, True)}]
count = 0


def anything(self, request, arguments, keywords, extra):
    global count
    count += 1
    return VALUES[count % len(VALUES)]


for name in ("call", "vjp", "parameters", "buffers", "state_dict", "get", "next", "arguments_after", "fetch", "load_state_dict"):
    setattr(executor.Executor, f"_do_{name}", anything)


class Scale(executor.torch.nn.Module):
    def __init__(self, size):
        super().__init__()


def count_up(stop):
    return iter(())


def total(numbers):
    return 0
