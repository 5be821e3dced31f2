#!/bin/bash
# Which Java a server is started with. To be sourced.

# server_of HOME: name and version of the server in that folder, such as "elasticsearch 6.8.23"; fails where there is none.
server_of() {
    local jar
    for jar in "$1"/lib/elasticsearch-[0-9]*.jar "$1"/lib/opensearch-[0-9]*.jar; do
        [ -e "$jar" ] || continue
        jar=${jar##*/}
        jar=${jar%.jar}
        echo "${jar%%-*} ${jar#*-}"
        return
    done
    return 1
}

# java_range NAME VERSION: the lowest and the highest version of Java that this server runs on.
java_range() {
    case "$1 $2" in
        elasticsearch\ [0-6].*) echo 8 17 ;;
        elasticsearch\ 7.*) echo 11 21 ;;
        elasticsearch\ *) echo 17 25 ;;
        *) echo 11 21 ;;
    esac
}

# java_version FOLDER: the version of the Java in this folder, such as 17; fails where there is none.
java_version() {
    local version=
    command -v "$1/bin/java" >/dev/null || return 1
    [ ! -r "$1/release" ] || version=$(<"$1/release")
    [[ $version =~ (^|$'\n')JAVA_VERSION=\"([^\"]+) ]] || [[ $("$1/bin/java" -version 2>&1) =~ (version )\"([^\"]+) ]] || return 1
    version=${BASH_REMATCH[2]#1.}
    echo "${version%%[.+-]*}"
}

# java_home LOWEST HIGHEST [FOLDER]: the folder of a Java of such a version: the one that is named and no other; else Debian's 17,
# that of $JAVA_HOME, the one that PATH finds. Prints nothing and fails if there is none.
java_home() {
    local folder path version
    if [ -n "${3:-}" ]; then
        set -- "$1" "$2" "$3"
    else
        path=$(command -v java || true)
        [ -z "$path" ] || path=$(readlink -f "$path")
        set -- "$1" "$2" /usr/lib/jvm/java-17-openjdk-* "${JAVA_HOME:-}" "${path%/bin/java}"
    fi
    for folder in "${@:3}"; do
        version=$(java_version "$folder") || continue
        if [ "$version" -ge "$1" ] && [ "$version" -le "$2" ]; then
            echo "$folder"
            return
        fi
    done
    return 1
}
