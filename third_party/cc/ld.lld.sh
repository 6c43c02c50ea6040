#!/bin/sh
# The linker. Where it misses a function that newer versions of glibc have, a
# sentence is added that no other tool can say.
folder=${0%/*}/..
said=$("$folder/zig" ld.lld "$@" 2>&1)
code=$?
if [ -n "$said" ]; then printf '%s\n' "$said" >&2; fi
for symbol in $(printf '%s\n' "$said" | sed -n 's/.*undefined symbol: //p'); do
  # The names of all versions, a zero after each.
  if tr '\0' '\n' <"$folder/lib/libc/glibc/abilists" |
    LC_ALL=C grep -qaE "(^|[^A-Za-z0-9_])$symbol\$"; then
    echo "$symbol: only newer versions of glibc have it than what is built" \
      "here is to load with, GLIBC in @xla_ffi_kit//third_party/cc:toolchain.bzl:" \
      "do without it, or build with the machine's compiler" >&2
  fi
done
exit "$code"
