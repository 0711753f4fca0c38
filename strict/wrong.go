package strict

// Wrong is an error of who configured something: what was set can't be meant. Nothing was done yet.
type Wrong struct{ error }

// Unwrap returns what is wrong.
func (w Wrong) Unwrap() error { return w.error }

// Refuse says of an error, if there is one, that it is one of configuration.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	return Wrong{err}
}
