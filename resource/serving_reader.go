//go:build reader

package resource

// Serving returns no function: a program that only reads checks nothing.
func Serving[F any](F) (none F) { return none }
