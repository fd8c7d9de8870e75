#!/usr/bin/env bash
# The README's two commands in a clean Debian 12.
set -euo pipefail
. "$(dirname "$0")/clean_debian.bash"
make_root bookworm
both_commands
