"""Leaves work in the interpreter's queues: finalizers, weak references, contexts and modes that stay entered."""
import weakref

import torch


class Mine:
    def __del__(self):
        raise SystemExit(0)


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        raise SystemExit(0)


class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        raise KeyboardInterrupt


def repeat_kv(x, n_rep):
    weakref.finalize(x, lambda: 1 / 0)
    mine = Mine()
    mine.me = mine
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    (Mode if n_rep == 2 else Dispatch)().__enter__()
    return x
