#!/bin/bash
# Sets up persistent memory as `plimsoll doctor` says, on an emulated NVDIMM in a virtual machine.
# doctor looks, its commands run as printed, for all of the memory and for half of it, and doctor
# looks again. Then an experiment is played whose folder is on the tier `pmem`. This machine's
# memory, disks and settings are not changed.
#
#   scripts/nvdimm.sh PLIMSOLL [FOLDER]    FOLDER keeps the kernel's package, for the next time
#
# Needs qemu-system-x86, ndctl, fio, e2fsprogs, busybox-static, cpio and kmod, and fetches a kernel
# by apt-get; no root. Prints the machine's output, and exits with 0 if both ways made a file system
# with dax and the experiment was played.
set -euo pipefail

plimsoll=$(realpath -- "${1:?usage: nvdimm.sh PLIMSOLL [FOLDER]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${2:-$work}
mkdir -p "$keep"

for program in qemu-system-x86_64 ndctl fio mkfs.ext4 busybox cpio depmod; do
    command -v "$program" >/dev/null || missing+=" $program"
done
[ -z "${missing:-}" ] || {
    echo "missing:$missing (apt-get install qemu-system-x86 ndctl fio e2fsprogs busybox-static cpio kmod)" >&2
    exit 3
}

package=$(find "$keep" -name 'linux-image-*.deb' | head -1)
if [ -z "$package" ]; then
    name=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -1)
    (cd "$keep" && apt-get download "$name" >/dev/null)
    package=$(find "$keep" -name 'linux-image-*.deb' | head -1)
fi
dpkg -x "$package" "$work/kernel"
kernel=$(find "$work/kernel/boot" -name 'vmlinuz-*')
version=${kernel##*vmlinuz-}
depmod --basedir "$work/kernel" "$version"

root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,run,tmp,mnt,etc,root,lib/modules/"$version"}
cp "$(command -v busybox)" "$root/bin/busybox"
# copy PROGRAM: copies it, with the libraries that it is linked with, if they are here
copy() {
    local file
    file=$(command -v "$1")
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
    ldd "$file" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}
for program in ndctl fio mkfs.ext4 "$plimsoll"; do copy "$program"; done
ln -sf "$plimsoll" "$root/bin/plimsoll"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\n' >"$root/etc/group"

modules=$work/kernel/lib/modules/$version
for name in nfit nd_pmem dax_pmem ext4; do
    # Without this machine's rules (ndctl's own rule loads libnvdimm by a program). A built-in
    # module has no file.
    modprobe --config /dev/null --dirname "$work/kernel" --set-version "$version" --show-depends "$name" | sed -n 's/^insmod //p'
done | awk '!seen[$0]++' | while read -r module; do
    cp "$module" "$root/lib/modules/"
    echo "/lib/modules/${module##*/}"
done >"$root/modules"
[ -s "$root/modules" ] || { echo "the kernel $version has no module for NVDIMMs in $modules" >&2; exit 1; }

mkdir -p "$root/targets/kept"
cat >"$root/targets/kept/target.toml" <<'END'
[about]
what     = "the built-in server, with a folder on a tier"
version  = "1"
licence  = "MIT"
protocol = "http"
service  = "server.http"
[[process]]
role    = "server"
run     = ["{plimsoll}", "echo", "--listen", "{host}:{port.http}"]
env     = { DATA = "{folder.data}" }
ports   = ["http"]
folders = { data = "pmem" }
ready   = { tcp = "http" }
END
cat >"$root/pmem.toml" <<'END'
title = "A folder on persistent memory"
asks  = "Is it there?"
[target]
use = "kept"
[lab.tier.pmem]
path = "/mnt/pmem0"
[load]
agents = 1
time   = "3s"
warmup = "0s"
[[load.cycle]]
call = "get"
with = { path = "/" }
END
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root PLIMSOLL_TARGETS=/targets
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /tmp
mkdir -p /dev/shm /run
ip link set lo up
while read -r module; do insmod "$module" || echo "NO MODULE $module"; done </modules
sleep 1
ls /sys/bus/nd/devices
# way NAME: runs the commands that doctor prints below that name
way() {
    echo "=== doctor, before: $1"
    plimsoll doctor >/tmp/said 2>&1
    grep -i -A40 'persistent memory' /tmp/said | sed -n '1,24p'
    awk -v name="# $1" '{ sub(/^ +/, "") } $0 == name { on = 1; next } on && /^(ndctl|mkfs\.ext4|mkdir|mount) / { print; next } on { exit }' /tmp/said >/tmp/commands
    [ -s /tmp/commands ] || { echo "NO COMMANDS"; return 1; }
    while read -r command; do
        echo "+ $command"
        $command </dev/null || { echo "FAILED: $command"; return 1; }
    done </tmp/commands
    echo "=== doctor, after: $1"
    plimsoll doctor 2>&1 | grep -i -A6 'persistent memory' | sed -n '1,8p'
    grep ' /mnt/pmem0 ' /proc/mounts | grep dax && df -h /mnt/pmem0 | tail -1
}
way 'App Direct, all of it' && plimsoll run /pmem.toml --plain --accept --out /tmp/runs &&
    cat /tmp/runs/*/analysis.json | tr -d '\n' | grep -o '"tiers": *{[^}]*}'
played=$?
umount /mnt/pmem0
ndctl disable-namespace all
ndctl destroy-namespace --force all
way 'App Direct, half of it, the rest left free' && [ "$played" -eq 0 ] && echo ALL WAYS DONE
umount /mnt/pmem0
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . -print0 | cpio --null --create --format=newc --quiet) | gzip -1 >"$work/initrd.gz"

# Regions consist of steps of 16 MiB; the rest is for the labels.
truncate -s 1026M "$work/nvdimm"
# Without KVM, because not every machine with KVM can boot this kernel with it. No times are
# measured here.
timeout 280 qemu-system-x86_64 -accel tcg -machine q35,nvdimm=on,nvdimm-persistence=mem-ctrl -m 1G,slots=2,maxmem=4G -smp 2 \
    -nographic -no-reboot -nodefaults -serial stdio \
    -object "memory-backend-file,id=memory,share=on,mem-path=$work/nvdimm,size=1026M" -device nvdimm,id=nvdimm,memdev=memory,label-size=2M \
    -kernel "$kernel" -initrd "$work/initrd.gz" -append 'console=ttyS0 loglevel=4 panic=-1' | tee "$work/said"
grep -q 'ALL WAYS DONE' "$work/said"
