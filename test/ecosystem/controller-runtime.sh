# shellcheck shell=bash disable=SC1091,SC2154
# The packages whose suites need an API server.
. "$CLIENT/suite"
suite ./pkg/client ./pkg/cache ./pkg/envtest ./pkg/manager ./pkg/webhook
