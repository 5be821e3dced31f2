#!/bin/bash
# Installs Debian packages and starts none of the services in them: debian-packages.sh PACKAGE…  Needs root. Says nothing
# but why it failed. scripts/need.sh calls it; `plimsoll install` and `plimsoll run --install` have it built in.
set -euo pipefail

# needrestart would restart what the administrator runs.
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1

# A package's own scripts start its services by these two programs. In a mount namespace of its own, apt sees a program that
# does nothing in their place. The namespace ends with apt, however that ends: nothing is left to be removed.
without_starting() {
    local starter
    for starter in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
        [ ! -e "$starter" ] || mount --bind /bin/true "$starter"
    done
    "$@"
}
apart=()
if unshare --mount --propagation private true 2>/dev/null; then
    # Elsewhere, as in containers without the right to mount, there is hardly an init that could start anything.
    apart=(unshare --mount --propagation private bash -c "set -e; $(declare -f without_starting); without_starting \"\$@\"" apart)
fi
apt() { "${apart[@]}" apt-get --option DPkg::Lock::Timeout=300 --yes --no-install-recommends "$@" </dev/null 2>&1; }

is_there() { [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
new=()
for package in "$@"; do
    is_there "$package" || new+=("$package")
done

# The lists may be missing or old; they are only fetched when the first attempt fails.
if ! said=$(apt install "$@") && ! said=$(apt update && apt install "$@"); then
    tail -n 5 <<<"$said" >&2
    exit 1
fi

# Nor are services that have just come to start with the system. What was there before is the administrator's.
[ ${#new[@]} -gt 0 ] || exit 0
units=$(dpkg --listfiles "${new[@]}" 2>/dev/null | grep -E '^(/usr)?/lib/systemd/system/[^@]*\.(service|socket)$|^/etc/init\.d/.' || true)
for unit in $units; do
    case $unit in
        /etc/init.d/*) update-rc.d "${unit##*/}" disable ;;
        *) ! command -v systemctl || systemctl disable --now "${unit##*/}" ;;
    esac >/dev/null 2>&1 || true
done
