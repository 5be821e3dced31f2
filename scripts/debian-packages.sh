#!/bin/bash
# Installs Debian packages without starting their services: debian-packages.sh PACKAGE…  Needs root.
# Prints only the reason of a failure. scripts/need.sh calls it; `plimsoll install` and `plimsoll
# run --install` have it built in.
set -euo pipefail

# needrestart would restart the administrator's services.
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1

# A package's scripts start its services by these two programs. In a separate mount namespace, apt
# finds a program that does nothing in their place. The namespace ends with apt in every case, so
# that nothing must be removed.
without_starting() {
    local starter
    for starter in /usr/sbin/invoke-rc.d /usr/bin/deb-systemd-invoke; do
        [ ! -e "$starter" ] || mount --bind /bin/true "$starter"
    done
    "$@"
}
apart=()
if unshare --mount --propagation private true 2>/dev/null; then
    # Otherwise, as in containers without the right to mount, there is usually no init that could
    # start a service.
    apart=(unshare --mount --propagation private bash -c "set -e; $(declare -f without_starting); without_starting \"\$@\"" apart)
fi
apt() { "${apart[@]}" apt-get --option DPkg::Lock::Timeout=300 --yes --no-install-recommends "$@" </dev/null 2>&1; }

is_there() { [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
new=()
for package in "$@"; do
    is_there "$package" || new+=("$package")
done

# The lists may be missing or old. They are fetched only if the first attempt fails.
if ! said=$(apt install "$@") && ! said=$(apt update && apt install "$@"); then
    tail -n 5 <<<"$said" >&2
    exit 1
fi

# New services must not start with the system, either. Earlier services belong to the administrator.
[ ${#new[@]} -gt 0 ] || exit 0
units=$(dpkg --listfiles "${new[@]}" 2>/dev/null | grep -E '^(/usr)?/lib/systemd/system/[^@]*\.(service|socket)$|^/etc/init\.d/.' || true)
for unit in $units; do
    case $unit in
        /etc/init.d/*) update-rc.d "${unit##*/}" disable ;;
        *) ! command -v systemctl || systemctl disable --now "${unit##*/}" ;;
    esac >/dev/null 2>&1 || true
done
