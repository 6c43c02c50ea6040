"""Shows that what is shipped depends on nothing but the sources.

    python3 tests/build/hermetic.py
    python3 tests/build/hermetic.py --quick

Builds the wheels here and, with nothing in any cache and no compiler, in a copy
of the sources in another folder, and takes it from a cache; and looks at what
an action can see. One full build; with --quick the kit's wheel and one
operation's CUDA library stand for all of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUICK_TARGETS = ["//python:wheel"]
TARGETS = [*QUICK_TARGETS, "//accelerate:wheel"]
# What --config=cuda adds, and the machine's compiler builds.
CUDA = "--config=cuda"
QUICK_CUDA_TARGETS = ["//xla_ffi/ops/relu:relu_cuda.so"]
CUDA_TARGETS = [
    "//python:stripped/xla_ffi_kit_cuda.so",
    "//xla_ffi:xla_ffi_kit_cuda.so",
]
# Where a compiler of the machine, and what it includes, would be.
COMPILER = ["/usr/include", "/usr/lib/gcc", "/usr/libexec/gcc"]
# The same headers from a repository of another name.
OTHER_HEADERS = "--//third_party/xla:ffi_api=@xla_header_copy//xla/ffi/api:ffi"

# An action sees its declared inputs, the system's programs and Python; no other
# path exists for it.
SYSTEM = ["/bin", "/etc/alternatives", "/lib", "/lib64", "/proc", "/usr"]
SANDBOX = [
    "--spawn_strategy=linux-sandbox",
    "--strategy=CppCompile=linux-sandbox",
    "--experimental_use_hermetic_linux_sandbox",
    *(
        f"--sandbox_add_mount_pair={path}"
        for path in [*SYSTEM, sys.base_prefix]
        if os.path.exists(path) and path != "/usr/local"
    ),
]

# What an action tries, which tags let it, and whether it is to succeed.
PROBES = [
    ("declared", "cat $(SRCS)", [], True),
    ("undeclared", "cat probe/input.txt", [], False),
    ("elsewhere", "cat {root}/probe/input.txt", [], False),
    ("network", "exec 3<>/dev/tcp/127.0.0.1/{port}", [], False),
    (
        "tagged",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
        ["requires-network"],
        True,
    ),
]
PROBE = """
genrule(
    name = "{name}",
    srcs = {srcs},
    outs = ["{name}.txt"],
    cmd = "{tries} && touch $@",
    tags = {tags},
)
"""


@dataclasses.dataclass
class Workspace:
    """A copy of the sources with an output base of its own."""

    root: pathlib.Path
    output_base: pathlib.Path | None = None
    environment: dict[str, str] = dataclasses.field(default_factory=dict)

    def bazel(self, command: str, *arguments: str) -> tuple[int, str]:
        """Exit code and what Bazel printed."""
        start = [str(self.root / "tools/bazel")]
        if self.output_base:
            start.append(f"--output_base={self.output_base}")
        done = subprocess.run(
            [*start, command, "--color=no", "--curses=no", *arguments],
            cwd=self.root,
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    def build(self, *arguments: str) -> str:
        """Bazel's summary of the processes that a build took."""
        code, said = self.bazel("build", *arguments)
        if code:
            sys.exit(f"{said}\nthe build failed in {self.root}")
        return re.findall(r"INFO: (\d+ process.*)", said)[-1]

    def outputs(self, targets: list[str], *flags: str) -> dict[str, str]:
        """sha256 of what the targets' build has left, by name."""
        _, said = self.bazel(
            "cquery", "--output=files", *flags, " + ".join(targets)
        )
        files = re.findall(r"^bazel-out/[^/]+/bin/(.*)$", said, re.MULTILINE)
        return {
            name: hashlib.sha256(
                (self.root / "bazel-bin" / name).read_bytes()
            ).hexdigest()
            for name in files
        }


class Report:
    """Prints what was found, and counts."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def check(self, what: str, right: bool, seen: str = "") -> None:
        self.passed += right
        self.failed += not right
        print(f"{'ok' if right else 'FAILED':7}{what}", flush=True)
        if seen and not right:
            print(f"       {seen}", flush=True)


def copy_sources(to: pathlib.Path) -> None:
    """Copies what git tracks or would track; no link back to the original."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def executed(summary: str) -> list[str]:
    """The kinds of process in Bazel's summary that are work, not cache hits."""
    kinds = re.findall(r"\d+ ([\w -]+?)(?=,|\.)", summary.split(":", 1)[1])
    return [
        kind
        for kind in kinds
        if kind != "internal" and not kind.endswith("cache hit")
    ]


def compare(
    report: Report,
    targets: list[str],
    first: dict[str, str],
    second: dict[str, str],
) -> None:
    """All targets gave one file each, and both builds gave the same."""
    report.check("all of it was compared", len(first) == len(targets))
    for name, digest in first.items():
        report.check(
            f"same bytes, two folders, two header repositories: {name}",
            digest == second.get(name),
            f"{digest} {second}",
        )
        print(f"       sha256 {digest}", flush=True)


def check_builds(
    report: Report,
    targets: list[str],
    copy: Workspace,
    sandbox: list[str],
    *config: str,
) -> None:
    """Builds in the copy: without a cache, then from one."""
    here = Workspace(ROOT)
    print(f"here: {here.build(*config, *targets)}", flush=True)
    first = here.outputs(targets, *config)
    disk = copy.root.parent / f"disk{len(config)}"
    flags = [*config, *sandbox, OTHER_HEADERS, f"--disk_cache={disk}"]
    summary = copy.build(*flags, *targets)
    print(f"copy, nothing in any cache: {summary}", flush=True)
    report.check(
        "the second build ran in the sandbox, and found nothing in a cache",
        executed(summary) == ["linux-sandbox"] and "hit" not in summary,
        summary,
    )
    second = copy.outputs(targets, *flags)
    compare(report, targets, first, second)
    copy.bazel("clean")
    summary = copy.build(*flags, *targets)
    print(f"copy, from the cache: {summary}", flush=True)
    report.check(
        "everything came from the cache, with the same bytes",
        "cache hit" in summary
        and not executed(summary)
        and copy.outputs(targets, *flags) == second,
        summary,
    )


def check_sandbox(report: Report, copy: Workspace) -> None:
    """What an action sees: declared inputs, and no network."""
    probe = copy.root / "probe"
    probe.mkdir()
    (probe / "input.txt").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        values = {"root": copy.root, "port": server.getsockname()[1]}
        rules = [
            PROBE.format(
                name=name,
                srcs=["input.txt"] if name == "declared" else [],
                tries=tries.format(**values),
                tags=tags,
            )
            for name, tries, tags, _ in PROBES
        ]
        (probe / "BUILD").write_text("".join(rules))
        for name, _, _, allowed in PROBES:
            code, said = copy.bazel("build", *SANDBOX, f"//probe:{name}")
            report.check(
                f"action '{name}' is {'run' if allowed else 'stopped'}",
                (code == 0) == allowed,
                said,
            )


def main() -> int:
    """Runs the checks; the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep the copy")
    parser.add_argument("--quick", action="store_true", help="some of it")
    options = parser.parse_args()
    began = time.monotonic()
    report = Report()
    # Not below /tmp, which Bazel's sandbox hides.
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    parent = pathlib.Path(caches).expanduser() / "xla_ffi_kit"
    parent.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="hermetic-", dir=parent))
    copy = Workspace(
        work / "another" / "folder",
        work / "output_base",
        # A careless user's environment.
        {"SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Kathmandu", "LANG": "de_DE"},
    )
    try:
        copy_sources(copy.root)
        targets = QUICK_TARGETS if options.quick else TARGETS
        (work / "empty").mkdir()
        without_compiler = [
            f"--sandbox_add_mount_pair={work / 'empty'}:{path}"
            for path in COMPILER
            if os.path.exists(path)
        ]
        check_builds(report, targets, copy, [*SANDBOX, *without_compiler])
        check_sandbox(report, copy)
        targets = QUICK_CUDA_TARGETS if options.quick else CUDA_TARGETS
        check_builds(report, targets, copy, SANDBOX, CUDA)
    finally:
        copy.bazel("shutdown")
        if not options.keep:
            subprocess.run(["chmod", "-R", "u+w", work], check=False)
            shutil.rmtree(work, ignore_errors=True)
    print(
        f"{report.passed} passed, {report.failed} failed, "
        f"{time.monotonic() - began:.0f} s"
    )
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
