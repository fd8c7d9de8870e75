#!/bin/sh
# Makes the man pages of `towers` and of each of its subcommands, with help2man, from the output of --help.
# Usage: man_pages.sh HELP2MAN .../towers VERSION FOLDER
set -eu
help2man=$1 version=$3 folder=$4
PATH=${2%/*}:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$folder"
mkdir -p "$folder"

# The subcommands of a command, one per line: `data`, `data shapes`
subcommands() {
    # shellcheck disable=SC2086 # one word per command
    towers $1 --help | sed -n '/^subcommands:/I,$s/^  \([a-z-]*\) .*/\1/p' | while read -r name; do
        echo "$1 $name"
        subcommands "$1 $name"
    done
}
{ echo; subcommands ''; } >"$work/commands"
name_of() { echo "towers$1" | tr ' ' -; }

while read -r words; do
    name=$(name_of "${words:+ $words}")
    {
        printf '[exit status]\n0: the work is done. 1: it failed. 2: the command line is wrong, or names a device '
        printf 'that is not there.\nAn error is one line on standard error.\n[see also]\n'
        while read -r others; do
            other=$(name_of "${others:+ $others}")
            [ "$other" = "$name" ] || echo ".BR $other (1),"
        done <"$work/commands" | sed '$s/,$//'
    } >"$work/sections"
    # shellcheck disable=SC2086
    summary=$(towers $words --help | sed -n '1{s/\.$//;p;}')
    "$help2man" --no-info --version-string "$version" --include "$work/sections" --name "$summary" \
        --output "$work/page" "towers${words:+ $words}"
    # help2man names every page `towers`, the first word of the usage.
    sed "s/^\.TH TOWERS /.TH $(echo "$name" | tr '[:lower:]' '[:upper:]') /; s/^towers \\\\- /$name \\\\- /" \
        "$work/page" >"$folder/$name.1"
done <"$work/commands"
