"""Raises exceptions whose class lies about its name, bases and module."""


class Meta(type):
    __name__ = property(lambda cls: 1 / 0)
    __mro__ = property(lambda cls: 1 / 0)
    __module__ = property(lambda cls: 1 / 0)

    def __instancecheck__(cls, instance):
        return True

    def __subclasscheck__(cls, other):
        return True


class Strange(Exception, metaclass=Meta):
    __traceback__ = property(lambda self: 1 / 0)
    __class__ = property(lambda self: 1 / 0)


def repeat_kv(x, n_rep):
    raise Strange("n_rep")
