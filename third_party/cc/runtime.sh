#!/bin/sh
# runtime.sh ZIG TARGET FOLDER: what programs for TARGET are linked with.
#
# Zig builds its C++ library, and shared libraries that hold nothing but the
# symbols of one glibc, when it first links a program; they are taken out of its
# cache, which is inside the action's own folder.
set -eu
zig=$1 target=$2 out=$3
cache=$out.cache
mkdir -p "$cache"
export ZIG_LIB_DIR="${zig%/*}/lib"
export ZIG_GLOBAL_CACHE_DIR="$cache" ZIG_LOCAL_CACHE_DIR="$cache"

echo 'int main() {}' >"$cache/main.cc"
"$zig" c++ -target "$target" -pie -O2 -g0 -Wl,-s \
  -o "$cache/main" "$cache/main.cc"

# take NAME-IN-THE-CACHE NAME
take() { cp "$(find "$cache/o" -name "$1")" "$out/$2"; }

take Scrt1.o Scrt1.o
for name in c++ c++abi unwind compiler_rt c_nonshared; do
  take "lib$name.a" "lib$name.a"
done
# By the names that -l looks for; what programs need is written inside.
for name in c m ld pthread dl rt resolv util; do
  take "lib$name.so.*" "lib$name.so"
done
rm -rf "$cache"
