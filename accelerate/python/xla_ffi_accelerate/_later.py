"""What is done when a module has been imported.

`jax.experimental.sparse` takes a second to import. Its primitives are found
when, and if, the program imports it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    """A module's own loader, and what is done after it."""

    def __init__(self, own: importlib.abc.Loader, finder: _Finder) -> None:
        self._own = own
        self._finder = finder

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def create_module(
        self, spec: importlib.machinery.ModuleSpec
    ) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        # Not before: an import may fail, and the program try again.
        self._finder.end()


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
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None
            spec = find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def end(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for then in list(self.then.values()):
            then()


_finders: dict[str, _Finder] = {}


def when_imported(module: str, key: object, then: Callable[[], None]) -> None:
    """Calls `then` now if `module` is imported, else once it is.

    Args:
      module: a package or a module.
      key: of what `then` does, which is done once.
      then: what to do.
    """
    if module in sys.modules:
        then()
        return
    finder = _finders.setdefault(module, _Finder(module))
    finder.then[key] = then
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
