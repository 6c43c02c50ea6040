"""Changes of the setting, by the process and by blocks of a thread.

The names that are on in a thread result from applying all changes in order:
those of the process, then those of the thread's blocks, from the outermost one
on. Blocks may end in any order. When one ends, only its changes are removed.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from xla_ffi_accelerate import _setting, registry
from xla_ffi_accelerate._rule import Rule
from xla_ffi_accelerate._setting import OFF, Record, Setting


@dataclasses.dataclass(eq=False)
class Change:
    """Names to switch on, in addition to earlier ones or instead of them.

    Attributes:
      names: the names.
      replaces: whether earlier names are switched off.
      record: collects what is lowered in the block.
    """

    names: frozenset[str]
    replaces: bool
    record: Record | None = None


@dataclasses.dataclass(eq=False)
class Scope:
    """The changes of the process, or of a block.

    Attributes:
      block: the change that the block was opened with; None for the process.
      added: the changes within the block, as one change.
    """

    block: Change | None = None
    added: Change | None = None

    def after(self, names: frozenset[str]) -> frozenset[str]:
        """Returns the names after the changes."""
        for change in (self.block, self.added):
            if change is not None:
                kept = frozenset() if change.replaces else names
                names = kept | change.names
        return names

    def add(self, change: Change) -> None:
        """Adds a change to what was added before."""
        before = self.added
        if change.replaces or before is None:
            self.added = change
        else:
            names = before.names | change.names
            self.added = Change(names, before.replaces)


class _Thread(threading.local):
    """A thread's blocks, and the context that ends when the last one does."""

    def __init__(self) -> None:
        self.blocks: list[Scope] = []
        self.context: AbstractContextManager[None] | None = None


_process = Scope()
_thread = _Thread()
# Held for a moment only. A forked child finds it free, and the process's
# changes as its setting has them.
_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire,
    after_in_parent=_lock.release,
    after_in_child=_lock.release,
)


def add(change: Change) -> None:
    """Changes the thread's innermost block, or else the process."""
    scope = _thread.blocks[-1] if _thread.blocks else _process
    with _lock:
        scope.add(change)
        _apply()


def record_all(record: Record) -> None:
    """Lets `record` collect what all threads lower after this call."""
    with _lock:
        _process.block = Change(frozenset(), replaces=False, record=record)
        _apply()


def open_block(change: Change) -> None:
    """Begins a block of this thread."""
    _thread.blocks.append(Scope(change))
    _apply()


def close_block(change: Change) -> None:
    """Ends the last block of this thread that began with `change`."""
    for scope in reversed(_thread.blocks):
        if scope.block is change:
            _thread.blocks.remove(scope)
            _apply()
            return


@functools.cache
def _interned(
    names: frozenset[str],
    rules: tuple[tuple[str, Rule], ...],
    record: Record | None,
) -> Setting:
    return Setting(names, rules, record=record) if names or record else OFF


def _setting_of(scopes: Sequence[Scope]) -> Setting:
    names = frozenset[str]()
    record = None
    for scope in scopes:
        names = scope.after(names)
        record = (scope.block and scope.block.record) or record
    return _interned(names, tuple(registry.rules(names)), record)


def _apply() -> None:
    with _lock:
        _setting.set_process(_setting_of([_process]))
        own = _setting_of([_process, *_thread.blocks])
    if _thread.blocks:
        context = _setting.using(own)
        context.__enter__()
        # The first one knows what was before all of them.
        _thread.context = _thread.context or context
    elif _thread.context is not None:
        _thread.context.__exit__(None, None, None)
        _thread.context = None
