"""The C++ file around a function: includes, the handler, the table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from xla_ffi_kit.strings import cpp, standard_headers

_SYMBOL = "XlaFfiKit_Inline"
# The exports: the table, the parallel loop's variable, the codes.
EXPORTS = ("XlaFfiKit_*",)
CODES_SYMBOL = f"XlaFfiKit_Codes_{_SYMBOL}"
# Ends the directives that say where code stands, which the cache does not hash.
_PLACE = "  // the author's place"


_DIRECTIVE = re.compile(rf"^#line .*{re.escape(_PLACE)}\n", re.MULTILINE)


def without_places(text: str) -> str:
    """Returns generated code without the directives for its places."""
    return _DIRECTIVE.sub("", text)


@dataclasses.dataclass(frozen=True)
class Place:
    """The place in a user's file at which a piece of C++ begins."""

    file: str
    line: int

    def directive(self) -> str:
        """Returns the directive by which the compiler names that place."""
        return f"#line {self.line} {cpp.literal(self.file)}{_PLACE}\n"


@dataclasses.dataclass(frozen=True)
class Source:
    """A function in C++, and the operation's names of its parameters.

    Attributes:
      name: the name of the operation.
      code: C++ with the function `function` in it.
      function: the function's or function template's name.
      instances: template arguments of each instance; none for a function.
      operands: names of the operands.
      attributes: names of the attributes.
      place: where `code` comes from.
      including: how an author includes the header {}.
    """

    name: str
    code: str
    function: str
    instances: Sequence[str]
    operands: Sequence[str]
    attributes: Sequence[str]
    place: Place
    including: str = "begin the code with {}"

    def text(self, with_place: bool = True) -> str:
        """Returns the file to compile; the cache hashes it without the place.

        A function that moves within its file is the same function.
        """
        functions = [f"{self.function}<{i}>" for i in self.instances]
        names = [
            cpp.literal(text)
            for text in (
                self.name,
                " ".join(self.operands),
                " ".join(self.attributes),
            )
        ]
        glue = Place(self._glue(), 1)
        text = "".join(
            [
                '#include "xla_ffi/core/define_table.h"\n',
                '#include "xla_ffi/inline/kit.h"\n',
                '#include "xla_ffi/inline/rows.h"\n',
                self.place.directive(),
                self.code,
                "\n",
                glue.directive(),
                f"KIT_DEFINE_HANDLER_OF({_SYMBOL}, {', '.join(names)}, "
                f"{', '.join(functions) or self.function});\n",
                f"XLA_FFI_KIT_DEFINE_TABLE({names[0]}, XLA_FFI_KIT_HANDLER("
                f"{names[0]}, {_SYMBOL}));\n",
            ]
        )
        return text if with_place else without_places(text)

    def _glue(self) -> str:
        return f"<handler of {self.name}>"

    def explain(self, error: str) -> str:
        """A compiler's error; in generated code it is about the function."""
        header = standard_headers.missing(error)
        if header:
            return f"{error}\n{self.including.format(f'#include <{header}>')}"
        if self._glue() not in error:
            return error
        wanted = f"a function {self.function}(), not a template"
        if self.instances:
            wanted = (
                f"a function template {self.function}(), for the `dtypes` "
                f"{', '.join(self.instances)}"
            )
        return f"{error}\nexpected {wanted}"
