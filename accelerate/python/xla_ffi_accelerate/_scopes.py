"""Changes of the setting: of the process, and of blocks on a thread.

What is on in a thread is what the changes make of nothing, in their order:
those of the process, and of the thread's blocks from the outermost one on. A
block may end in any order; its changes go, and the others stay.
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
    """Names that are switched on with those before, or instead of them.

    Attributes:
      names: the names.
      replaces: whether those before are switched off.
      record: who wants to know what is lowered in a block.
    """

    names: frozenset[str]
    replaces: bool
    record: Record | None = None


@dataclasses.dataclass(eq=False)
class Scope:
    """The changes of the process, or of a block.

    Attributes:
      block: what the block was opened with; none for the process.
      added: what was switched within it, as one change.
    """

    block: Change | None = None
    added: Change | None = None

    def after(self, names: frozenset[str]) -> frozenset[str]:
        """What the changes make of the names."""
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
    """Has `record` know what all threads lower, from now on."""
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
