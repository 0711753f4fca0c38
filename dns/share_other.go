//go:build !unix

package dns

import "errors"

// share fails: questions are only served on nodes, which are machines with Linux.
func share(uintptr) error { return errors.ErrUnsupported }
