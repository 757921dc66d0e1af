#!/bin/sh
# A shell build under Leasehold: examples/build.sh DIRECTORY
#
# Packs a directory into an archive with a list of checksums. The build works in the temp space of its run and leaves
# what it made in the run's artifacts. The clean-up runs under the lease, also when the build fails or is interrupted,
# and the script exits as the build did.
set -eu

directory=$(cd "$1" && pwd)

exec leasehold run \
  --name build \
  --tag "directory=$(basename "$directory")" \
  --cleanup 'rm -rf "$LEASEHOLD_RUN_DIR/temp/tree"; echo "cleaned up" >&2' \
  -- sh -euc '
    tree=$LEASEHOLD_RUN_DIR/temp/tree
    artifacts=$LEASEHOLD_RUN_DIR/artifacts
    cp -R "$1" "$tree"
    cd "$tree"
    find . -type f -exec cksum {} + > "$artifacts/checksums.txt"
    tar -cf "$artifacts/tree.tar" .
    echo "$artifacts/tree.tar"
  ' build "$directory"
