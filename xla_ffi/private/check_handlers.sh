#!/usr/bin/env bash
# check_handlers.sh TARGET NM OUTPUT EXPECTED LISTED OWN OTHERS
#
# Checks that the handlers that TARGET names and those that its sources define
# are the same; then writes OUTPUT. The last four are files of lines: EXPECTED
# "custom call target, symbol" of TARGET itself, LISTED the symbols of all
# handlers, OWN the objects of its sources, OTHERS what else is linked.
set -euo pipefail
target=$1 nm=$2 output=$3 expected=$4 listed=$5 own=$6 others=$7

# symbols FILE: what the objects and archives listed in it define.
symbols() {
  xargs -r "$nm" <"$1" 2>/dev/null | awk 'NF == 3 && $2 ~ /[TWb]/ { print $3 }'
}

defined=$(symbols "$own" || true)
# Nothing that nm can read, as with link-time optimisation: the linker will say.
if [[ -n $defined || ! -s $own ]]; then
  # A handler is a C function with one static variable in a lambda, which gcc
  # and clang name in their own ways.
  lambda='ENK(UlP17XLA_FFI_CallFrameE_clES[0-9]*_|[0-9]*\$_[0-9]+clEP17XLA_FFI_CallFrame)E7handler'
  handlers=$(sed -nE "s/^_ZGVZZ[0-9]+([A-Za-z_0-9]+)$lambda\$/\1/p" \
    <<<"$defined")
  named=${handlers//$'\n'/, }
  all=$defined
  bad=0
  while read -r call symbol; do
    if grep -qxF "$symbol" <<<"$all"; then continue; fi
    if [[ $all == "$defined" ]]; then all+=$'\n'$(symbols "$others" || true); fi
    if grep -qxF "$symbol" <<<"$all"; then continue; fi
    echo "$target: handlers[\"$call\"]: no source defines $symbol: define it" \
      "with XLA_FFI_DEFINE_HANDLER_SYMBOL($symbol, ...) or correct the name" \
      "(its sources define ${named:-none})" >&2
    bad=1
  done <"$expected"
  for symbol in $handlers; do
    if grep -qxF "$symbol" "$listed"; then continue; fi
    echo "$target: handlers: the sources define $symbol, which is not listed:" \
      "add \"TARGET\": \"$symbol\" with the custom call target of your choice" >&2
    bad=1
  done
  if ((bad)); then exit 1; fi
fi
touch "$output"
