"""Writes the files of a new operation that works, to be changed into yours.

In the kit's own tree they go where its operations are, and xla_ffi/BUILD gets
a line; in any other Bazel workspace into a new folder NAME of the current one.
"""

import argparse
import os
import pathlib
import re
import sys

import names

TEMPLATES = pathlib.Path(__file__).parent / "templates"
KIT = "xla_ffi_kit"


def workspace_name(root: pathlib.Path) -> str:
    """What MODULE.bazel or WORKSPACE calls the workspace, as an identifier."""
    found = ""
    for file, rule in (("MODULE.bazel", "module"), ("WORKSPACE", "workspace")):
        path = root / file
        if not found and path.exists():
            pattern = rf"^{rule}\(\s*name\s*=\s*[\"']([^\"']+)[\"']"
            match = re.search(pattern, path.read_text(), re.MULTILINE)
            found = match[1] if match else ""
    return re.sub(r"\W", "_", found or root.name).lower()


def camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def fill(template: str, values: dict[str, str]) -> str:
    text = (TEMPLATES / template).read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def values_for(prefix: str, name: str, header: str) -> dict[str, str]:
    """What the templates' words stand for, in any workspace."""
    return {
        "GUARD": re.sub(r"\W", "_", f"{prefix}_{header}_").upper(),
        "HEADER": header,
        "NAME": name,
        "NAMESPACE": f"{prefix}::{name}",
        "SYMBOL": camel(prefix) + camel(name),
        "TARGET": f"{prefix}.{name}",
    }


def cuda_attributes(values: dict[str, str]) -> str:
    handler = f'"{values["TARGET"]}": "{values["SYMBOL"]}Cuda"'
    return (
        f"\n    cuda_handlers = {{{handler}}},"
        f'\n    cuda_srcs = ["{values["NAME"]}.cu.cc"],'
    )


def files_of_kit(name: str, cuda: bool) -> dict[str, str]:
    """Path -> text, for the kit's own tree."""
    folder = f"xla_ffi/ops/{name}"
    values = values_for(KIT, name, f"{folder}/{name}.h") | {
        "GAP": "\n",  # before imports of one's own
        "IMPORTS": "\nfrom xla_ffi_kit.library.handler_library import "
        "KIT_LIBRARIES\nfrom xla_ffi_kit.primitive.ffi_op import FfiOp\n",
        "KIT": "",
        "LIBRARIES": "KIT_LIBRARIES",
        "MODULE": f"xla_ffi_kit.ops.{name}",
    }
    values["CUDA"] = cuda_attributes(values) if cuda else ""
    files = {
        f"{folder}/BUILD": fill("kit.BUILD.tpl", values),
        f"{folder}/{name}.cc": fill("op.cc.tpl", values),
        f"{folder}/{name}.h": fill("op.h.tpl", values),
        f"python/xla_ffi_kit/ops/{name}.py": fill("op.py.tpl", values),
        f"tests/jax/{name}_test.py": fill("op_test.py.tpl", values),
    }
    if cuda:
        files[f"{folder}/{name}.cu.cc"] = fill("op.cu.cc.tpl", values)
    return files


def files_of_user(
    prefix: str, folder: str, name: str, cuda: bool
) -> dict[str, str]:
    """Path -> text, for any other workspace."""
    values = values_for(prefix, name, f"{name}.h") | {
        "CUDA_DATA": f'\n    cuda = ["{name}_cuda.so"],' if cuda else "",
        "GAP": "",
        "IMPORTS": "from xla_ffi_kit import FfiOp, HandlerLibrary\n",
        "KIT": f"@{KIT}",
        "LIBRARIES": f'HandlerLibrary.beside(__file__, "{name}")',
        "MODULE": name,
    }
    values["CUDA"] = cuda_attributes(values) if cuda else ""
    files = {
        f"{folder}/BUILD": fill("BUILD.tpl", values),
        f"{folder}/{name}.cc": fill("op.cc.tpl", values),
        f"{folder}/{name}.h": fill("op.h.tpl", values),
        f"{folder}/{name}.py": fill("op.py.tpl", values),
        f"{folder}/{name}_test.py": fill("op_test.py.tpl", values),
    }
    if cuda:
        files[f"{folder}/{name}.cu.cc"] = fill("op.cu.cc.tpl", values)
    return files


def with_operation(build: str, name: str, cuda: bool) -> str:
    """xla_ffi/BUILD with the operation in its lists of all handlers."""
    entries = {"cpu": f'        "//xla_ffi/ops/{name}",'}
    if cuda:
        entries["cuda"] = f'        "//xla_ffi/ops/{name}:{name}_cuda",'
    for library, entry in entries.items():
        pattern = rf'(name = "{library}",.*?deps = \[\n)(.*?)(    \],)'
        match = re.search(pattern, build, re.DOTALL)
        if match is None:
            raise names.Refusal(
                f'xla_ffi/BUILD has no list of `deps` in "{library}" to put '
                f"{name} into: is this the kit's?"
            )
        lines = sorted([*match[2].splitlines(), entry], key=_by_label)
        listed = "".join(f"{line}\n" for line in lines)
        build = build[: match.start(2)] + listed + build[match.end(2) :]
    return build


def _by_label(line: str) -> str:
    return line.strip(' ",').replace(":", "!")  # as buildifier sorts


def plan(
    root: pathlib.Path, here: pathlib.Path, name: str, cuda: bool
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """What a run does: new files, files that change, and commands to go on.

    Args:
      root: the workspace.
      here: the folder in it where the user is.
      name: the operation.
      cuda: whether it gets a CUDA kernel too.

    Raises:
      names.Refusal: it cannot be done; its text is one sentence.
    """
    names.check(name)
    config = ""
    changed = {}
    if workspace_name(root) == KIT:
        files = files_of_kit(name, cuda)
        build = (root / "xla_ffi" / "BUILD").read_text()
        changed["xla_ffi/BUILD"] = with_operation(build, name, cuda)
        cpu, test = f"//xla_ffi/ops/{name}:{name}", f"//tests/jax:{name}_test"
        if cuda:
            config = " --config=cuda"
    else:
        if not here.is_relative_to(root):
            raise names.Refusal(
                f"the current folder {here} is not in the workspace {root}"
            )
        package = (here.relative_to(root) / name).as_posix()
        files = files_of_user(workspace_name(root), package, name, cuda)
        cpu, test = f"//{package}:{name}_cpu", f"//{package}:{name}_test"
        if cuda:
            config = f" --@{KIT}//third_party/cuda:enabled"
    folders = {pathlib.PurePath(path).parent for path in files}
    own = [folder.as_posix() for folder in folders if folder.name == name]
    for path in [*own, *files]:
        if (root / path).exists():
            raise names.Refusal(
                f"{path} exists already, and nothing is overwritten: choose "
                "another name"
            )
    bazel = "tools/bazel" if (root / "tools" / "bazel").exists() else "bazel"
    built = f"{cpu}.so"
    if cuda:
        built += f" {cpu.partition(':')[0]}:{name}_cuda.so"
    commands = [f"{bazel} build{config} {built}", f"{bazel} test {test}"]
    return files, changed, commands


def write(root: pathlib.Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with open(root / path, "x") as file:
            file.write(text)


def find_root(here: pathlib.Path) -> pathlib.Path:
    given = os.environ.get("BUILD_WORKSPACE_DIRECTORY")  # set by `bazel run`
    if given:
        return pathlib.Path(given)
    markers = ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel")
    for folder in (here, *here.parents):
        if any((folder / marker).exists() for marker in markers):
            return folder
    raise names.Refusal(
        f"{here} is in no Bazel workspace: no folder above it has a "
        "MODULE.bazel or WORKSPACE"
    )


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line; returns the exit status."""
    parser = argparse.ArgumentParser("new_op", description=__doc__)
    parser.add_argument("name", help="the operation's name, in snake_case")
    parser.add_argument("--cuda", action="store_true", help="a CUDA kernel too")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the files, write none"
    )
    given = parser.parse_args(arguments)
    here = pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", os.getcwd()))
    try:
        root = find_root(here)
        files, changed, commands = plan(root, here, given.name, given.cuda)
    except names.Refusal as refusal:
        print(f"new_op: {refusal}", file=sys.stderr)
        return 1
    if given.dry_run:
        for path, text in {**files, **changed}.items():
            print(f"--- {path}\n{text}")
        return 0
    write(root, files)
    for path, text in changed.items():
        (root / path).write_text(text)
    for path, text in files.items():
        print(f"wrote   {path} ({text.count(chr(10))} lines)")
    for path in changed:
        print(f"changed {path}")
    print("It works as it is. Build it, and test it:")
    for command in commands:
        print(f"  {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
