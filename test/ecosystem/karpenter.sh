# shellcheck shell=bash disable=SC1091,SC2154
# Its rules of validation (CEL), and its controllers in the suites' process.
. "$CLIENT/suite"
suite ./pkg/apis/... ./pkg/controllers/... ./pkg/utils/...
