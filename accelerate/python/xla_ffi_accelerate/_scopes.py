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


@dataclasses.dataclass(frozen=True, eq=False)
class Change:
    """Names to switch on, in addition to earlier ones or instead of them.

    Attributes:
      names: the names.
      replaces: whether earlier names are switched off.
      exported: the names whose handlers exported programs call, too.
      record: collects what is lowered in the block.
    """

    names: frozenset[str] = frozenset()
    replaces: bool = False
    exported: frozenset[str] = frozenset()
    record: Record | None = None

    def then(self, later: Change) -> Change:
        """Returns both changes as one."""
        kept = Change() if later.replaces else self
        return Change(
            kept.names | later.names,
            self.replaces or later.replaces,
            kept.exported | later.exported,
            later.record or self.record,
        )


@dataclasses.dataclass(eq=False)
class _Block:
    """A block, and the changes that it and what is in it have made.

    Attributes:
      opened: the change that it was opened with.
      change: that and the later ones, as one.
    """

    opened: Change
    change: Change


class _Thread(threading.local):
    """A thread's blocks, and the context that ends when the last one does."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.context: AbstractContextManager[None] | None = None


_process = _Block(Change(), Change())
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
    block = _thread.blocks[-1] if _thread.blocks else _process
    with _lock:
        block.change = block.change.then(change)
        _apply()


def record_all(record: Record) -> None:
    """Lets `record` collect what all threads lower after this call."""
    with _lock:
        _process.change = _process.change.then(Change(record=record))
        _apply()


def open_block(change: Change) -> None:
    """Begins a block of this thread."""
    _thread.blocks.append(_Block(change, change))
    _apply()


def close_block(change: Change) -> None:
    """Ends the last block of this thread that began with `change`."""
    for block in reversed(_thread.blocks):
        if block.opened is change:
            _thread.blocks.remove(block)
            _apply()
            return


def _new(
    names: frozenset[str],
    rules: tuple[tuple[str, Rule], ...],
    exported: frozenset[str],
    record: Record | None,
) -> Setting:
    if not (names or record):
        return OFF
    return Setting(names, rules, exported=exported, record=record)


_interned = functools.cache(_new)
# Nobody asks for a record's again once it has ended.
_recording = functools.lru_cache(maxsize=8)(_new)


def _setting_of(blocks: Sequence[_Block]) -> Setting:
    all_ = functools.reduce(Change.then, (block.change for block in blocks))
    rules = tuple(registry.rules(all_.names))
    find = _recording if all_.record else _interned
    return find(all_.names, rules, all_.exported, all_.record)


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
