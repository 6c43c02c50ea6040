# shellcheck shell=bash
# How this folder's runs check, count and end; sourced.

summary="" passed=0 failed=0

# check NAME FOLDER COMMAND...: runs the command in the folder.
check() {
  local name=$1 folder=$2 began=$SECONDS verdict
  shift 2
  printf '\n--- %s\n' "$name"
  if (cd "$folder" && "$@"); then
    verdict=passed passed=$((passed + 1))
  else
    verdict=FAILED failed=$((failed + 1))
  fi
  summary+=$(printf '%-46s %s %4d s' "$name" "$verdict" \
    $((SECONDS - began)))$'\n'
}

# finish: prints the table and 'N passed, N failed', and ends with the latter.
finish() {
  printf '\n%s%d passed, %d failed\n' "$summary" "$passed" "$failed"
  exit "$failed"
}
