"""Calls a function once the program has imported a module.

`jax.experimental.sparse` takes a second to import. Its primitives are found
when, and if, the program imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, as the others on `sys.meta_path` do."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.then: dict[object, Callable[[], None]] = {}

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        for finder in sys.meta_path:
            spec: importlib.machinery.ModuleSpec | None = None
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self._follow(spec.loader)
            if spec is not None:
                return spec
        return None

    def _follow(self, loader: importlib.abc.Loader) -> None:
        """Has the loader, which is this module's own, call what comes then."""
        own = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            own(module)
            # This comes last, because an import may fail, and be tried again.
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            for then in list(self.then.values()):
                then()

        loader.exec_module = exec_module  # type: ignore[method-assign]


_finders: dict[str, _Finder] = {}


def when_imported(module: str, key: object, then: Callable[[], None]) -> None:
    """Calls `then` once `module`, which is not imported yet, is.

    Args:
      module: a package or a module.
      key: of what `then` does, which is done once.
      then: what to do.
    """
    finder = _finders.setdefault(module, _Finder(module))
    finder.then[key] = then
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
