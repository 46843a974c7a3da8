"""Raises exceptions whose text cannot be had: it raises, ends the process, or is no text."""


class NoText(Exception):
    def __str__(self):
        raise self.args[0]


class Text(str):
    def __getitem__(self, part):
        raise SystemExit(0)

    def encode(self, *arguments):
        raise KeyboardInterrupt


class Hostile(Exception):
    def __str__(self):
        return Text("hostile")


def repeat_kv(x, n_rep):
    raise {2: NoText(ValueError()), 4: NoText(SystemExit(0)), 5: NoText(KeyboardInterrupt())}.get(n_rep) or Hostile()
