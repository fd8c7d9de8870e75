#!/bin/sh
# Installs a build into a new folder and tests what the README says of it.
# Usage: install.sh CMAKE BUILD
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $1" >&2; exit 1; }

"$1" --install "$2" --prefix "$work/a prefix" >"$work/log" || fail "cmake --install"
cat "$work/log"
cd "$work"
[ -x "a prefix/bin/towers" ] || fail "there is no bin/towers"
for plugin in "$2"/lib/towers/*.so; do
    [ ! -e "$plugin" ] || [ -f "a prefix/lib/towers/${plugin##*/}" ] || fail "there is no lib/towers/${plugin##*/}"
done
[ -z "$(find "a prefix" -name '*.a' -o -name '*.h' -o -name include)" ] || fail "it installs more than a user needs"

PATH="$work/a prefix/bin:$PATH"
[ "$(command -v towers)" = "$work/a prefix/bin/towers" ] || fail "PATH finds another towers"
towers --version
towers data shapes data
towers train --towers cpu --data data --batch 2 --steps 1 --run run | tee log
[ "$(sed -n 's/^evaluate with: //p' log)" = "towers eval run" ] || fail "the hint of train"
towers eval --towers cpu --run run

bash -n "a prefix/share/bash-completion/completions/towers" || fail "the completion for bash"
for file in zsh/site-functions/_towers fish/vendor_completions.d/towers.fish; do
    [ -s "a prefix/share/$file" ] || fail "there is no share/$file"
done
for document in $(sed -n 's/.*](\(docs[^)#]*\).*/\1/p' "a prefix/share/doc/towers/README.md"); do
    [ -f "a prefix/share/doc/towers/$document" ] || fail "the README's $document is not there"
done

if [ ! -d "a prefix/share/man" ]; then
    echo "SKIPPED the man pages: this build has none because help2man is missing"
    exit
fi
# subcommands WORD...: prints the subcommands of this command
subcommands() { towers "$@" --help | sed -n '/^subcommands:/I,$s/^  \([a-z-]*\) .*/\1/p'; }
# check WORD...: checks the page of this command and of its subcommands
check() {
    page="a prefix/share/man/man1/$(echo towers "$@" | tr ' ' -).1"
    [ -f "$page" ] || fail "there is no $page"
    for section in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" "SEE ALSO"; do
        grep -Eq "^\.SH \"?$section\"?\$" "$page" || fail "$page: no $section"
    done
    for flag in $(towers "$@" --help | grep -oE '^  (-h,)?--[a-z-]+' | tr , ' '); do
        sed 's/\\-/-/g' "$page" | grep -qe "$flag" || fail "$page: no $flag"
    done
    if command -v man >/dev/null; then
        man --warnings -l "$page" >/dev/null 2>warnings || fail "man cannot show $page"
        [ ! -s warnings ] || { cat warnings; fail "$page: man warns"; }
    fi
    for name in $(subcommands "$@"); do check "$@" "$name"; done
}
check
command -v man >/dev/null || echo "SKIPPED the check with man: man is not installed"
