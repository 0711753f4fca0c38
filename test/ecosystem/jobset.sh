# shellcheck shell=bash disable=SC1091,SC2154
# Controllers and webhooks of its own, in the suites' process.
. "$CLIENT/suite"
suite ./test/integration/...
