#!/bin/bash
# Links a rustup toolchain named `arm64` that builds for aarch64-unknown-linux-gnu, and installs the linker, the C library
# and the emulator that its programs need. For Debian on x86-64, as root.
#
#   arm64.sh [FOLDER]      FOLDER keeps the toolchain; default: onl-arm64 in the user's cache folder
#
# The first choice is this machine's own compiler with the standard library that rustup has for it, the second one with a
# standard library built from Debian's sources of the same version. Where Debian no longer has that version, its
# cross-ready compiler is unpacked beside it instead. Packages come from the mirror that this machine's package lists name;
# the lists themselves stay as they are.
set -euo pipefail

triple=aarch64-unknown-linux-gnu
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/onl-arm64}
stamp=$(rustc --version)
version=$(printf '%s\n' "$stamp" | cut -d' ' -f2)

fail() { printf 'arm64.sh: %s\n' "$1" >&2; exit 1; }
step() { printf 'arm64.sh: %s\n' "$1" >&2; }

install_tools() {
  local missing=() command
  for command in aarch64-linux-gnu-gcc qemu-aarch64-static; do
    command -v "$command" >/dev/null || missing+=("$command")
  done
  [ ${#missing[@]} -gt 0 ] || [ ! -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || return 0
  step "installing linker, C library and emulator"
  [ "$(id -u)" = 0 ] || fail "needs root to install gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static"
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static >/dev/null
}

# Package lists, status and downloads of our own, so that nothing of the system's changes.
apt_folder=
private_apt() {
  apt_folder=$folder/apt
  mkdir -p "$apt_folder/lists/partial" "$apt_folder/cache/archives/partial" "$folder/packages"
  : >"$apt_folder/status"
  apt_options=(-o Dir::State::lists="$apt_folder/lists" -o Dir::State::status="$apt_folder/status"
    -o Dir::Cache="$apt_folder/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none "$@")
}

download() { (cd "$folder/packages" && apt-get "${apt_options[@]}" -qq download "$@"); }

# The machine's rustc, with std as rustup has it.
rustup_target() {
  rustup target add "$triple" >/dev/null 2>&1 || return 1
  linked=$(rustc --print sysroot)
}

# The machine's rustc; std from the source package of the same version.
own_compiler() {
  local mirror source_version toolchain=$folder/toolchain source libraries
  mirror=$(apt-get indextargets --format '$(SUITE) $(REPO_URI)' 'Created-By: Packages' | awk '$1 !~ /-/ {print $2; exit}')
  [ -n "$mirror" ] || { step "the package lists name no mirror"; return 1; }
  mkdir -p "$folder/apt"
  printf 'Types: deb\nURIs: %s\nSuites: trixie-backports forky sid\nComponents: main\nArchitectures: amd64\nSigned-By: %s\n' \
    "$mirror" /usr/share/keyrings/debian-archive-keyring.gpg >"$folder/apt/newer.sources"
  private_apt -o Dir::Etc::sourcelist="$folder/apt/newer.sources" -o Dir::Etc::sourceparts=/nonexistent
  apt-get "${apt_options[@]}" -qq update || return 1
  source_version=$(apt-cache "${apt_options[@]}" madison rust-src |
    awk -F'|' -v wanted="$version+" '{gsub(/ /, "", $2)} index($2, wanted) == 1 {print $2; exit}')
  [ -n "$source_version" ] || { step "the mirror has no source package of rustc $version"; return 1; }

  step "unpacking the sources of std $source_version"
  download "rust-src=$source_version" || return 1
  dpkg -x "$folder"/packages/rust-src_*.deb "$folder/root" || return 1
  source=$folder/root/usr/src/rustc-$version
  cp -al "$(rustc --print sysroot)/." "$toolchain" 2>/dev/null ||
    { rm -rf "$toolchain"; cp -a "$(rustc --print sysroot)/." "$toolchain"; } || return 1
  mkdir -p "$toolchain/lib/rustlib/src"
  ln -sfn "$source" "$toolchain/lib/rustlib/src/rust"

  step "building std for $triple"
  # The compiler of the copy by path: through rustup it would load its libraries from the original toolchain.
  ( cd "$source/library"
    env -u RUSTUP_TOOLCHAIN CARGO_TARGET_DIR="$folder/std" RUSTC="$toolchain/bin/rustc" RUSTC_BOOTSTRAP=1 \
      __CARGO_DEFAULT_LIB_METADATA=stablestd CARGO_INCREMENTAL=0 \
      CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
      CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
      RUSTFLAGS="-Zforce-unstable-if-unmarked -Cembed-bitcode=yes --cap-lints=allow" \
      "$toolchain/bin/cargo" build --quiet --locked --release --target "$triple" \
      --manifest-path sysroot/Cargo.toml --features panic-unwind,backtrace ) || return 1
  libraries=$toolchain/lib/rustlib/$triple/lib
  mkdir -p "$libraries"
  cp "$folder/std/$triple/release/deps/"*.rlib "$libraries/" || return 1
  rm -rf "$folder/std"
  linked=$toolchain
}

# Debian's compiler for its web browsers, which comes with std for both architectures.
debian_compiler() {
  local std_package llvm_package package library
  step "unpacking the distribution's own compiler instead"
  private_apt -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
  apt-get "${apt_options[@]}" -qq update
  std_package=$(apt-cache "${apt_options[@]}" depends libstd-rust-web-dev |
    sed -n 's/^ *Depends: *\(libstd-rust-web-[0-9.]*\)$/\1/p' | head -1)
  [ -n "$std_package" ] || fail "the mirror has neither sources of rustc $version nor the package rustc-web"
  download rustc-web libstd-rust-web-dev libstd-rust-web-dev:arm64 "$std_package"
  llvm_package=$(dpkg-deb -f "$folder"/packages/"$std_package"_*_amd64.deb Depends | grep -o 'libllvm[0-9]*' | head -1)
  download "$llvm_package"
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
  linked=$folder/root/usr
  for library in "$linked"/lib/x86_64-linux-gnu/librustc_driver-*.so "$linked"/lib/x86_64-linux-gnu/libLLVM*.so*; do
    ln -sfn "x86_64-linux-gnu/$(basename "$library")" "$linked/lib/"
  done
  ln -sfn "$(rustup which cargo)" "$linked/bin/cargo"
}

install_tools
if [ "$(cat "$folder/stamp" 2>/dev/null || true)" = "$stamp" ] && rustc +arm64 --version >/dev/null 2>&1; then
  step "toolchain arm64 is there"
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
linked=
if ! rustup_target && ! own_compiler; then
  rm -rf "$folder"
  mkdir -p "$folder"
  debian_compiler
fi
rm -rf "$folder/apt" "$folder/packages"
rustup toolchain link arm64 "$linked"
step "linked: $(rustc +arm64 --version)"
printf '%s\n' "$stamp" >"$folder/stamp"
