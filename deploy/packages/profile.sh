# shellcheck shell=sh
# The commands worker and enqueue of orgops.
PATH=$PATH:/opt/orgops/bin
