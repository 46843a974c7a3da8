"""Keeps suites collected between runs: to start pytest, to import and to collect test files costs as much as many tests.

A suite is collected anew when a byte of its files has changed, and after every run that did not come to its plain end. What the
tests themselves find in a second run is what they found in the first: pytest makes fixtures anew each time they are set up.
Runs no learner code.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grader.sandbox.client import Sandbox

    from .plugin import Plugin, Suite, Watcher
    from .records import SuiteRun
    from .sharing import Share

CONFIG = Path(__file__).with_name("pytest.ini")
KEPT = 24  # suites; a course has fewer
OFF = (
    *("terminal", "cacheprovider", "faulthandler", "doctest", "junitxml", "pastebin", "logging", "warnings", "debugging"),
    *("unraisableexception", "threadexception", "setuponly", "setupplan", "stepwise", "legacypath", "capture"),
)


class Resident:
    """One collected suite, whose tests can be run again and again."""

    def __init__(self, plugin: Plugin, suite: Suite) -> None:
        options = ["-c", str(CONFIG), "--rootdir", str(suite.public.parent), "--import-mode=importlib", "--noconftest"]
        options += ["--assert=plain"]
        if suite.debug_paths is None:  # a debugger may take all the time it needs
            options += ["-p", "pytest_timeout", f"--timeout={suite.exercise_seconds + 60:g}"]
        for name in OFF:
            options += ["-p", f"no:{name}"]
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        os.environ.pop("PYTEST_ADDOPTS", None)
        self.plugin = plugin
        self._config: pytest.Config | None = None
        self.session: pytest.Session | None = None
        code = pytest.main([*options, *(str(file) for file in suite.files)], plugins=[plugin, self])
        if self._config is None:
            raise RuntimeError(f"pytest does not start: {code!r}")
        self._config._do_configure()
        self.session = pytest.Session.from_config(self._config)
        self._config.hook.pytest_sessionstart(session=self.session)
        try:
            self.session.perform_collect()
        finally:
            _forget_modules(suite.files)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        """Take pytest's configuration, and let `pytest.main` go home: it would collect, run and forget."""
        self._config = config
        return 0

    def run(self, *, collect_only: bool) -> None:
        """Run the tests that the plugin selects."""
        assert self.session is not None
        items = self.plugin.select(self.session.items)
        if collect_only:
            return
        following = dict(zip(items, [*items[1:], None], strict=True))
        for item in self.plugin.mine(items):
            if self.plugin.is_enough():
                break
            self.session._setupstate.teardown_exact(item)  # another process may have taken what was to follow
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following[item])
        self.session._setupstate.teardown_exact(None)

    def close(self) -> None:
        """End pytest."""
        if self._config is not None:
            with contextlib.suppress(Exception):
                if self.session is not None:
                    self.session._setupstate.teardown_exact(None)
            with contextlib.suppress(Exception):
                self._config._ensure_unconfigure()


Key = tuple[object, ...]
_residents: OrderedDict[Key, Resident] = OrderedDict()


def run(
    make: Callable[[], Plugin],
    suite: Suite,
    sandbox: Sandbox | None,
    watcher: Watcher | None = None,
    *,
    enough: Callable[[], bool] = lambda: False,
    share: Share | None = None,
    rehearse: bool = False,
    collect_only: bool = False,
) -> SuiteRun:
    """One run, or rehearsal, of a suite, which is collected if it is not here yet; with `collect_only` its tests are selected and
    not run."""
    key = _key(suite)
    resident = _residents.pop(key, None)
    plugin = make() if resident is None else resident.plugin
    plugin.begin(suite, sandbox, watcher, enough, share=share, rehearse=rehearse)
    logging.disable(logging.CRITICAL)
    whole = False
    try:
        if resident is None:
            resident = Resident(plugin, suite)
        if not plugin.run.problems:
            with sandbox.one_core() if sandbox is not None else contextlib.nullcontext():
                resident.run(collect_only=collect_only)
        whole = not plugin.run.problems
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest.exit and the like, too
        plugin.run.problems.append(f"pytest ended with {type(error).__name__}: {error}"[-2000:])
    finally:
        logging.disable(logging.NOTSET)
        plugin.finish()
        if whole and suite.debug_paths is None:
            _residents[key] = resident
        elif resident is not None:
            resident.close()
        while len(_residents) > KEPT:
            _residents.popitem(last=False)[1].close()
    return plugin.run


def _key(suite: Suite) -> Key:
    contents = tuple((str(path), path.read_bytes()) for path in suite.files)
    return contents, str(suite.public), suite.exercise_seconds, suite.debug_paths is None


def _forget_modules(files: list[Path]) -> None:
    """Let another course have files of the same names, and files change: pytest would take the module that is there."""
    paths = {str(path) for path in files}
    for name in [name for name, module in sys.modules.items() if getattr(module, "__file__", None) in paths]:
        del sys.modules[name]
