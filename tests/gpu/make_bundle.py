"""Packs files into one archive, the same bytes for the same files.

    make_bundle.py OUTPUT FILE...

The Python package keeps its folders, handler libraries go where it looks for
them, and all other files lie at the top.
"""

import gzip
import pathlib
import sys
import tarfile

TOP = "xla_ffi_kit_gpu"


def place(path: pathlib.PurePath) -> str:
    """The path in the archive of a file of the build."""
    if path.suffix == ".so":
        return f"xla_ffi_kit/_lib/{path.name}"
    if "xla_ffi_kit" in path.parts:
        below = path.parts[path.parts.index("xla_ffi_kit") :]
        return "/".join(below)
    return path.name


def main(output: str, *files: str) -> None:
    """Writes the archive."""
    with (
        open(output, "wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as stream,
        tarfile.open(mode="w", fileobj=stream) as archive,
    ):
        for name, path in sorted((place(pathlib.Path(f)), f) for f in files):
            data = pathlib.Path(path)
            info = tarfile.TarInfo(f"{TOP}/{name}")
            info.size = data.stat().st_size
            # Programs have no suffix.
            info.mode = 0o644 if data.suffix else 0o755
            with data.open("rb") as content:
                archive.addfile(info, content)


if __name__ == "__main__":
    main(*sys.argv[1:])
