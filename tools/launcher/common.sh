# shellcheck shell=bash
# What tools/bazel, its two installers and tools/lint.sh share; sourced.
# Sets `root`, `tools`, `version` and `cache`. Kept to macOS's bash 3.2.

tools=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
root=$(dirname "$tools")
read -r version <"$root/.bazelversion" || [[ -n $version ]]

say() { echo "tools/bazel: $*" >&2; }

die() {
  say "$*"
  exit 1
}

if [[ -n ${XLA_FFI_KIT_BAZEL_CACHE:-} ]]; then
  cache=$XLA_FFI_KIT_BAZEL_CACHE
elif [[ -n ${XDG_CACHE_HOME:-}${HOME:-} ]]; then
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/xla_ffi_kit
else
  die "there is no place for a cache: set HOME or XLA_FFI_KIT_BAZEL_CACHE"
fi

# make_cache: creates the cache and makes its path absolute, free of links.
# Called only by what is about to fill it.
make_cache() {
  local remedy="set XLA_FFI_KIT_BAZEL_CACHE to another folder"
  mkdir -p "$cache" || die "cannot create $cache: $remedy"
  cache=$(cd -P "$cache" && pwd)
  case $cache in
    # Bazel's sandbox gives each action an empty /tmp of its own.
    /tmp | /tmp/*)
      die "$cache lies under /tmp, which Bazel's sandbox hides: $remedy" ;;
    # The paths end up in rc files, class paths and library paths.
    *[[:space:]:]*)
      die "'$cache' has a space or a colon in it: $remedy" ;;
  esac
}

# install_once DIR COMMAND...: runs COMMAND, which fills the empty folder DIR,
# unless an earlier run finished that. A run that fails leaves nothing; one
# that was killed is started over. Of several runs at once one works while the
# others wait: its children inherit the lock, so nothing is removed under them
# even after it was killed itself. Relies on `set -e`: not to be called in a
# condition.
install_once() {
  local dir=$1
  if [[ -e $dir/.complete ]]; then return; fi
  (
    if command -v flock >/dev/null && ! flock -n 9; then
      say "waiting for another run, which is installing"
      flock 9
    fi
    if [[ -e $dir/.complete ]]; then exit; fi
    trap 'if ! [[ -e $dir/.complete ]]; then rm -rf "$dir"; fi' EXIT
    rm -rf "$dir"
    mkdir "$dir"
    "${@:2}"
    touch "$dir/.complete"
  ) 9>"$(dirname "$dir")/.lock"
}

# sha256 [FILE]: the checksum of the file, or of stdin, in hexadecimal.
sha256() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$@"
  else
    shasum -a 256 "$@"
  fi | cut -d' ' -f1
}

# fingerprint FILE...: a short name for what the files contain.
fingerprint() {
  local sum
  sum=$(cat "$@" | sha256)
  echo "${sum:0:12}"
}

# fits PROGRAM [RELEASE]: whether it is the Bazel of that release, without one
# of the wanted version.
fits() {
  local says
  says=$(XLA_FFI_KIT_BAZEL_PROBE=1 "$1" --version </dev/null) || return 1
  [[ $says == "bazel ${2:-$version}" ]]
}
