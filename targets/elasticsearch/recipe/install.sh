#!/bin/bash
# The hook `install` of a search server. To be sourced by one that sets $target, its folder; $version, which server is wanted; $programs,
# what it takes to make it but Maven; and has
#   assemble FOLDER    which makes FOLDER/server, from Maven Central
# The parameters `home` and `java` name what is there already.
#   install check      says nothing and exits 0 if all is there; else one line per thing to do, and exits 1
#   install packages   names the missing Debian packages, which `plimsoll install` installs
#   install apply      fetches the server, and makes what the experiments index: corpus-2020.json, the lines of 400,000 documents

# shellcheck disable=SC2154 # those three

recipe=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=java.sh
. "$recipe/java.sh"
# shellcheck source-path=SCRIPTDIR source=maven.sh
. "$recipe/maven.sh"

home=${PLIMSOLL_WITH_HOME:-}
corpus=$target/_build/corpus-2020.json
missing=()

if [ -n "$home" ]; then
    server=$(server_of "$home") || todo+=("put a server where home = \"$home\" says it is: there is none in $home/lib")
else
    server="${target##*/} $version"
    [ -d "$target/_build/$version" ] || todo+=("fetch $server from Maven Central ($target/hooks/install apply)")
    for program in ${programs[@]+"${programs[@]}"}; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    command -v mvn >/dev/null || missing+=(maven)
    [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
fi
# For the hook `audit`.
command -v jq >/dev/null || missing+=(jq)
read -r lowest highest <<<"$(java_range "${server% *}" "${server#* }")"
if ! java_home "$lowest" "$highest" "${PLIMSOLL_WITH_JAVA:-}" >/dev/null; then
    if [ -n "${PLIMSOLL_WITH_JAVA:-}" ]; then
        found=$(java_version "$PLIMSOLL_WITH_JAVA") || found=0
        todo+=("put Java $lowest to $highest where java = \"$PLIMSOLL_WITH_JAVA\" says it is, for $server: it has version $found (0: none is there)")
    else
        missing+=(openjdk-17-jre-headless)
    fi
fi
[ ${#missing[@]} -eq 0 ] ||
    todo=("install the packages ${missing[*]} (as root: apt-get install --no-install-recommends ${missing[*]})" ${todo[@]+"${todo[@]}"})

# fetch: one at a time, and there only when it is whole.
fetch() {
    local part
    umask 022
    mkdir -p "$target/_build"
    exec 9>"$target/_build/.lock"
    flock 9
    [ ! -d "$target/_build/$version" ] || return 0
    rm -rf "$target"/_build/.part.*
    part=$(mktemp -d "$target/_build/.part.XXXXXX")
    assemble "$part" || { rm -rf "$part"; return 1; }
    chmod -R u+rwX,go-w,go+rX "$part/server"
    mv -T "$part/server" "$target/_build/$version"
    rm -rf "$part"
}

# There only when it is whole.
make_corpus() {
    mkdir -p "$target/_build"
    "$recipe/corpus" 400000 2020 >"$corpus.$$" && mv "$corpus.$$" "$corpus"
}

case ${1:-} in
check)
    [ -e "$corpus" ] || todo+=("make the documents that experiments index ($target/hooks/install apply)")
    [ ${#todo[@]} -eq 0 ] || { printf '%s\n' "${todo[@]}"; exit 1; }
    ;;
packages) printf '%s\n' ${missing[@]+"${missing[@]}"} ;;
apply)
    if [ ${#missing[@]} -gt 0 ] || { [ -n "$home" ] && [ ${#todo[@]} -gt 0 ]; }; then
        printf '%s\n' "${todo[@]}" >&2
        exit 1
    fi
    [ -n "$home" ] || fetch || exit 1
    [ -e "$corpus" ] || make_corpus || exit 1
    ;;
*)
    echo "usage: install check|packages|apply" >&2
    exit 2
    ;;
esac
