#!/usr/bin/env bash
# Make the image that the Dockerfile starts from, where no image registry can be reached: `build_base.sh TAG`, as root.
#
# mmdebstrap makes a root file system from Debian's packages, `docker import` takes it.
set -euo pipefail

tag=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --mode=root --variant=minbase --components=main \
  --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/help/*' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*' \
  bookworm "$work/root.tar" >&2
docker import "$work/root.tar" "$tag"
