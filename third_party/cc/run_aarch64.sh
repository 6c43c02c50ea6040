#!/bin/sh
# run_aarch64.sh PROGRAM...: runs a program for ARM64 Linux in QEMU's emulator,
# with the C library of a cross compiler. Every instruction set that QEMU knows is there.
root=${AARCH64_ROOT:-/usr/aarch64-linux-gnu}
for qemu in qemu-aarch64 qemu-aarch64-static; do
  if command -v $qemu >/dev/null && [ -e "$root/lib/ld-linux-aarch64.so.1" ]; then
    exec $qemu -cpu max -L "$root" "$@"
  fi
done
echo "--config=aarch64: tests for ARM64 run in an emulator, which this machine" \
  "lacks: apt-get install qemu-user libc6-arm64-cross" >&2
exit 1
