#!/usr/bin/env bash
# Makes packages for users without a checkout: dist.sh [FOLDER] writes into target/dist-packages, or FOLDER
#   plimsoll-VERSION-ARCH-linux-musl.tar.gz   linked statically, for any Linux; without load.script, whose
#                                             interpreter needs a C++ library. Without musl (rustup target,
#                                             musl-tools): …-linux-gnu.tar.gz, for this glibc or later
#   plimsoll_VERSION_DEBARCH.deb              with all features, for this release of Debian or later
# Both contain the two stripped programs, completions, manual pages, licences and documents. Targets and
# experiments are in the program. BUILT=DIR packs the programs of that folder instead of building them, as the
# tests do, and compresses them quickly.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(mkdir -p "${1:-target/dist-packages}" && cd "${1:-target/dist-packages}" && pwd)
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1)
arch=$(uname -m)
level=${BUILT:+1}
level=${level:-9}
musl=$arch-unknown-linux-musl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# has_musl: whether Rust's library and a C compiler for musl are there
has_musl() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ] && command -v musl-gcc >/dev/null
}

# tree PROGRAMS ROOT: a file system with these programs and all that belongs to them
tree() {
    local programs=$1 root=$2
    install -D --mode 755 --strip "$programs/plimsoll" "$root/bin/plimsoll"
    install -D --mode 755 --strip "$programs/plimsoll-runner" "$root/bin/plimsoll-runner"
    local plimsoll=$root/bin/plimsoll
    mkdir -p "$root/share/bash-completion/completions" "$root/share/zsh/vendor-completions" \
        "$root/share/fish/vendor_completions.d" "$root/share/doc/plimsoll" "$root/share/man"
    "$plimsoll" completions bash >"$root/share/bash-completion/completions/plimsoll"
    "$plimsoll" completions zsh >"$root/share/zsh/vendor-completions/_plimsoll"
    "$plimsoll" completions fish >"$root/share/fish/vendor_completions.d/plimsoll.fish"
    "$plimsoll" man --out "$root/share/man/man1"
    gzip "-$level" --no-name "$root"/share/man/man1/*.1
    cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT SECURITY.md "$root/share/doc/plimsoll"
    cp -r docs "$root/share/doc/plimsoll/docs"
    find targets -name '*.md' -not -path '*/_build/*' -exec cp --parents {} "$root/share/doc/plimsoll" \;
    find "$root" -type d -exec chmod 755 {} +
    find "$root" -type f -not -path "$root/bin/*" -exec chmod 644 {} +
}

# tarball PROGRAMS NAME
tarball() {
    tree "$1" "$work/$2"
    tar --create --use-compress-program "gzip -$level" --file "$out/$2.tar.gz" --directory "$work" --owner root --group root --numeric-owner --sort name "$2"
    echo "$out/$2.tar.gz"
}

# deb PROGRAMS
deb() {
    local root=$work/deb depends debarch
    debarch=$(dpkg --print-architecture)
    tree "$1" "$root/usr"
    mkdir -p "$work/debian" "$root/DEBIAN"
    # Debian packages of the linked libraries; without dpkg-dev, the libraries that every build
    # needs.
    depends="libc6 (>= $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)), libgcc-s1, libstdc++6"
    if command -v dpkg-shlibdeps >/dev/null; then
        echo 'Source: plimsoll' >"$work/debian/control"
        depends=$(cd "$work" && dpkg-shlibdeps -O -e"$root/usr/bin/plimsoll" -e"$root/usr/bin/plimsoll-runner" 2>/dev/null |
            sed -n 's/^shlibs:Depends=//p')
    fi
    cat >"$root/DEBIAN/control" <<CONTROL
Package: plimsoll
Version: $version
Architecture: $debarch
Maintainer: The Plimsoll authors <plimsoll@localhost>
Section: net
Priority: optional
Installed-Size: $(du --summarize --block-size 1024 "$root/usr" | cut -f 1)
Depends: $depends
Suggests: openssh-client, iproute2, nftables
Description: load tester for clustered services
 Plimsoll finds the highest load at which the limits of a service still hold,
 healthy and with a member down. It starts the service, loads it, breaks it on
 purpose, checks what clients saw and whether data was lost, and says whether
 the figures can be trusted.
CONTROL
    cp "$root/usr/share/doc/plimsoll/LICENSE-APACHE" "$root/usr/share/doc/plimsoll/copyright"
    dpkg-deb --build --root-owner-group -Zgzip "-z$level" "$root" "$out/plimsoll_${version}_$debarch.deb" >/dev/null
    echo "$out/plimsoll_${version}_$debarch.deb"
}

if [ -n "${BUILT:-}" ]; then
    tarball "$BUILT" "plimsoll-$version-$arch-linux-gnu"
    deb "$BUILT"
    exit
fi
cargo build --quiet --release --locked --package plimsoll --features scripts
if has_musl; then
    CC_x86_64_unknown_linux_musl=musl-gcc CC_aarch64_unknown_linux_musl=musl-gcc \
        cargo build --quiet --release --locked --package plimsoll --target "$musl"
    tarball "target/$musl/release" "plimsoll-$version-$arch-linux-musl"
else
    echo "musl is missing (rustup target add $musl; apt-get install musl-tools): the tarball needs glibc $(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2) or later" >&2
    tarball target/release "plimsoll-$version-$arch-linux-gnu"
fi
if command -v dpkg-deb >/dev/null; then
    deb target/release
else
    echo "no Debian package: dpkg-deb is not installed" >&2
fi
