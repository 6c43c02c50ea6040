"""Rules of primitives in a module that not every program imports.

`jax.experimental.sparse` takes a second to import. Its primitives are replaced
when, and if, the program imports it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Loader:
    """A module's own loader, and what is done after it."""

    def __init__(
        self,
        own: importlib.machinery.SourceFileLoader,
        then: Callable[[], None],
    ) -> None:
        self._own = own
        self._then = then

    def __getattr__(self, name: str) -> object:
        return getattr(self._own, name)

    def create_module(
        self, spec: importlib.machinery.ModuleSpec
    ) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        self._then()


class _Finder:
    """Finds one module, as those behind it on `sys.meta_path` do."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)  # type: ignore
        return spec


def when_imported(
    module: str, install: Callable[[], Callable[[], None] | None]
) -> Callable[[], None]:
    """Calls `install` now if `module` is imported, else once it is.

    Args:
      module: a package or a module.
      install: returns what undoes it, or None.

    Returns:
      What undoes it, or prevents it.
    """
    undo: list[Callable[[], None] | None] = []

    def then() -> None:
        undo.append(install())

    finder = _Finder(module, then)
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, finder)

    def undo_or_prevent() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        for function in undo:
            if function is not None:
                function()

    return undo_or_prevent
