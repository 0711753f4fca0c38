//go:build !reader

package resource

// Serving returns f, which checks objects: validation, warnings. A program that only reads (the build tag reader) gets none instead, and so
// nothing of what f needs is linked into it.
func Serving[F any](f F) F { return f }
