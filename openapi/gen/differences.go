package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/kloop-dev/kloop/openapi/older"
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
	raw, err := json.Marshal(older.Differences{Schemas: schemas, V2: v2})
	if err != nil {
		return fmt.Errorf("encode the differences: %w", err)
	}
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := zip.Write(raw); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
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
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	raw, err := io.ReadAll(zip)
	if err == nil {
		err = json.Unmarshal(older.Lengthen(raw), into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}
