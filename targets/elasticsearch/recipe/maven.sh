#!/bin/bash
# Files of Maven Central by their coordinates, fetched by Maven (so that ~/.m2/settings.xml holds: mirrors, proxies, passwords), each
# held against its checksum. To be sourced.

# maven_fetch FOLDER: reads lines `SHA256 GROUP:ARTIFACT:VERSION:KIND FILE` and puts each file into the folder. Of a file without its
# checksum nothing is kept.
maven_fetch() {
    local folder=$1 work said line sum coordinates file group artifact version kind found failed=0
    local -a lines
    work=$(mktemp -d)
    mapfile -t lines
    {
        echo '<project><modelVersion>4.0.0</modelVersion><groupId>fetch</groupId><artifactId>fetch</artifactId>'
        echo '<version>1</version><packaging>pom</packaging><build><plugins><plugin>'
        echo '<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>'
        echo '<version>3.8.1</version><configuration><artifactItems>'
        for line in "${lines[@]}"; do
            read -r _ coordinates file <<<"$line"
            IFS=: read -r group artifact version kind <<<"$coordinates"
            echo "<artifactItem><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>"
            echo "<type>$kind</type><outputDirectory>$work/$(dirname "$file")</outputDirectory>"
            echo "<destFileName>$(basename "$file")</destFileName></artifactItem>"
        done
        echo '</artifactItems></configuration></plugin></plugins></build></project>'
    } >"$work/pom.xml"
    # A repository of its own: nothing stays in ~/.m2, and nothing that lies there is believed.
    if ! said=$(mvn --batch-mode --no-transfer-progress -Dstyle.color=never -Dmaven.repo.local="$work/.repository" \
        --file "$work/pom.xml" dependency:copy 2>&1); then
        echo "cannot fetch from Maven Central (~/.m2/settings.xml names mirrors and proxies):" >&2
        grep -m 3 '^\[ERROR\] [^ ]' <<<"$said" >&2 || tail -n 3 <<<"$said" >&2
        rm -rf "$work"
        return 1
    fi
    for line in "${lines[@]}"; do
        read -r sum coordinates file <<<"$line"
        found=$(sha256sum "$work/$file")
        found=${found%% *}
        if [ "$found" != "$sum" ]; then
            echo "checksum mismatch: $coordinates was fetched with the SHA-256 $found, and has $sum; it was thrown away" >&2
            failed=1
        else
            mkdir -p "$(dirname "$folder/$file")"
            mv "$work/$file" "$folder/$file"
        fi
    done
    rm -rf "$work"
    return "$failed"
}
