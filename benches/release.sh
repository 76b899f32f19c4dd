#!/bin/sh
# Builds the binary that is released and goes into the image: static, stripped, and optimised by the profile
# `release.profdata` beside this script, which profile.sh renews. Prints where it is; with symbols it is beside it, as
# `serin.symbols`: not an instruction is another one.
#
#   benches/release.sh
#
# A plain `cargo build --release` works as well, and takes a third more instructions a request. About 8 min on two cores.
set -eu
cd "$(dirname "$(realpath "$0")")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
# What the profile has never seen run is made small. Relocations take bits in place of words.
flags="-C target-feature=+crt-static -C profile-use=$PWD/benches/release.profdata -C llvm-args=-pgso-lwss-only=false"
flags="$flags -C llvm-args=-inlinehint-threshold=100 -C llvm-args=-inline-cold-callsite-threshold=10"
flags="$flags -C llvm-args=-inlinecold-threshold=10 -C link-arg=-Wl,-z,pack-relative-relocs"
# Only LLVM's linker makes one of equal functions, and it is the default on x86-64 alone.
case $host in x86_64-*) flags="$flags -C link-arg=-Wl,--icf=all" ;; esac
RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --locked --bin serin --target "$host" >&2
built=target/$host/release/serin
cp "$built" "$built.symbols"
strip --strip-all "$built"
echo "$PWD/$built"
