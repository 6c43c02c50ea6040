#!/usr/bin/env bash
# The server gives JAX's own replies, and refuses what it cannot run.
set -euo pipefail
cd "$(dirname "$0")"

./server model.mlir <request.txt | diff reply.txt -

# expect_error MODEL TEXT: the server ends with an error that has TEXT in it.
expect_error() {
  local error
  if error=$(./server "$1" 2>&1 <request.txt); then
    echo "the server accepted $1"
    exit 1
  fi
  grep -q "$2" <<<"$error" || {
    printf 'expected %s, got:\n%s\n' "$2" "$error"
    exit 1
  }
}

sed 's/xla_ffi_kit.relu/xla_ffi_kit.absent/' model.mlir >"$TEST_TMPDIR/absent"
expect_error "$TEST_TMPDIR/absent" xla_ffi_kit.absent
head -c 600 model.mlir >"$TEST_TMPDIR/cut"
expect_error "$TEST_TMPDIR/cut" "Failed to parse"
