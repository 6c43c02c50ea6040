#!/usr/bin/env bash
# Installs Bazel's release binary for this machine into the user's cache.
#
#   install_release.sh                prints its path, having installed it if
#                                     need be; fails, saying why, if it cannot
#   install_release.sh --installed    prints its path, or fails silently
#
# Only a binary whose checksum stands in bazel.sha256 is ever installed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

arch=$(uname -m)
case $arch in amd64) arch=x86_64 ;; aarch64) arch=arm64 ;; esac
name=bazel-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$arch
wanted=$(awk -v name="$name" '$2 == name { print $1 }' "$tools/bazel.sha256")
# The checksum in the folder's name: where it changes, the old file is not used.
folder=$name-${wanted:0:12}

if [[ ${1:-} == --installed ]]; then
  [[ -e $cache/$folder/.complete ]] || exit 1
  echo "$cache/$folder/bazel"
  exit
fi

download() {  # download URL FILE
  if command -v curl >/dev/null; then
    curl -fsSL --connect-timeout 5 --speed-limit 1024 --speed-time 30 \
      -o "$2" "$1"
  else
    python3 - "$@" <<'PYTHON'
import shutil, sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=5) as page:
        with open(sys.argv[2], "wb") as file:
            shutil.copyfileobj(page, file)
except OSError as error:
    sys.exit(str(error))
PYTHON
  fi
}

fill() {
  local url=https://github.com/bazelbuild/bazel/releases/download/$version/$name
  local got reason
  say "downloading $name from Bazel's release page"
  reason=$(download "$url" "$dir/bazel" 2>&1) ||
    die "Bazel's release page cannot be reached ($reason)"
  got=$(sha256 "$dir/bazel")
  [[ $got == "$wanted" ]] ||
    die "refused $url: its sha256 is $got, tools/bazel.sha256 says $wanted"
  chmod +x "$dir/bazel"
  fits "$dir/bazel" || die "$name does not run on this machine"
}

[[ -n $wanted ]] || exit 1
make_cache
dir=$cache/$folder
install_once "$dir" fill
echo "$dir/bazel"
