"""The C++ that is made of a string, and what is said where it does not compile.

`loops` writes the code around the author's, and `source` the file around that.
`type_questions` refuses what compiles to something else. Where a compiler finds
an error, xla_ffi_kit.compile.messages has the lines of it that are shown, and
`remedies` what to write instead.
"""
