"""Puts control characters, escape sequences, markup, HTML and direction marks into everything that is shown."""


class Alarm(Exception):
    pass


Alarm.__name__ = Alarm.__qualname__ = "\x1b[2J<img src=x onerror=alert(1)>[/bold]\u202e"


def repeat_kv(x, n_rep):
    print("\x1b]0;owned\x07\x1b[31m</pre><script>alert(1)</script>[link=file:///etc/passwd]")
    raise Alarm("\x1b]8;;http://example.org\x07[bold red]<b>\r\n\0\ud800\u2028" * 3)  # [0m <i>and the line itself</i>
