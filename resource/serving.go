//go:build !reader

package resource

// Serving returns f, which checks objects: validation, warnings. A program that only reads (the build tag reader) gets none instead, and so
// nothing of what f needs is linked into it.
func Serving[F any](f F) F { return f }

// Serves says that the program serves objects. Where it does not, the compiler leaves out what comes after a return that this guards, also
// where it does not inline Serving, and so keeps a reference to its argument.
const Serves = true
