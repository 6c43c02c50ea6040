#!/bin/sh
# The tool of Zig that this file's name says: clang, ar.
exec "${0%/*}/../zig" "${0##*/}" "$@"
