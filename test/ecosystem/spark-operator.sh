# shellcheck shell=bash disable=SC1091,SC2154
# Its controllers and webhooks, in the suites' process.
. "$CLIENT/suite"
suite ./internal/webhook ./internal/controller/... ./pkg/certificate
