package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/openapi/older"
	"github.com/kloop-dev/kloop/openapi/packed"
)

// The differences between the schemas of the newest version and those of 1.36.
//
//go:embed schemas-1.36.json.gz
var packed36 []byte

// differences are read once: they are small.
var differences = sync.OnceValues(func() (d older.Differences, err error) {
	err = packed.Unpack(packed36, &d)
	return d, err
})

// edition is the library as a version of Kubernetes has it.
type edition struct {
	*library
	diff *older.Differences // nil: the newest
	made map[string]json.RawMessage
}

// openEdition opens the library of a version. What is returned is for one caller.
func openEdition(on *features.Set) (*edition, error) {
	lib, err := books.open()
	if err != nil || !on.Emulates() {
		return &edition{library: lib}, err
	}
	diff, err := differences()
	return &edition{library: lib, diff: &diff, made: map[string]json.RawMessage{}}, err
}

// v3 returns the text of a schema.
func (e *edition) v3(name string) (json.RawMessage, bool) {
	raw, ok := e.Schemas[name]
	if e.diff == nil {
		return raw, ok
	}
	patch, differs := e.diff.Schemas[name]
	if !ok && !differs {
		return nil, false
	}
	return e.make("v3/"+name, raw, patch)
}

// v2 returns the text of a schema in the old format, where that has one of its own.
func (e *edition) v2(name string) (json.RawMessage, bool) {
	raw, ok := e.V2[name]
	if !ok || e.diff == nil {
		return raw, ok
	}
	return e.make("v2/"+name, raw, e.diff.V2[name])
}

// make makes the older schema, once.
func (e *edition) make(as string, newer, patch json.RawMessage) (json.RawMessage, bool) {
	if raw, done := e.made[as]; done {
		return raw, raw != nil
	}
	raw, ok, err := older.Apply(newer, patch)
	if err != nil {
		slog.Warn("a schema is described as the newest version has it", "schema", as, "err", fmt.Sprint(err))
		raw, ok = newer, true
	}
	e.made[as] = raw
	return raw, ok
}
