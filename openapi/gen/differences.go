package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"github.com/kloop-dev/kloop/openapi/older"
	"github.com/kloop-dev/kloop/openapi/packed"
)

// library is the content of a file of schemas.
type library struct {
	Schemas map[string]older.Schema `json:"schemas"`
	V2      map[string]older.Schema `json:"v2"`
}

// unserved are the packages of versions that are off by default, which kloop does not serve.
var unserved = regexp.MustCompile(`\.v[0-9]+(alpha|beta)[0-9]+\.`)

// differences writes how the schemas of one file become those of another, which is older.
func differences(from, to, file string) error {
	var newer, old library
	if err := read(from, &newer); err != nil {
		return err
	}
	if err := read(to, &old); err != nil {
		return err
	}
	schemas, err := patches(newer.Schemas, old.Schemas)
	if err != nil {
		return err
	}
	v2, err := patches(newer.V2, old.V2)
	if err != nil {
		return err
	}
	b, err := packed.Pack(older.Differences{Schemas: schemas, V2: v2})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

func patches(newer, old map[string]older.Schema) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for name := range newer {
		if _, there := old[name]; !there && !unserved.MatchString(name) {
			all[name] = json.RawMessage("null")
		}
	}
	for name, to := range old {
		from := newer[name]
		older.Fill(from)
		patch := older.Diff(from, to)
		if patch == nil || unserved.MatchString(name) {
			continue
		}
		raw, err := json.Marshal(patch)
		if err != nil {
			return nil, fmt.Errorf("encode the difference of %s: %w", name, err)
		}
		all[name] = raw
	}
	return all, nil
}

func read(file string, into *library) error {
	b, err := os.ReadFile(file)
	if err == nil {
		err = packed.Unpack(b, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}
