package main

import (
	"bytes"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// readSeeds reads objects. Lists of tests, which have their objects under send or base, are understood, too.
func readSeeds(file string) ([]map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var seeds []map[string]any
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var doc any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return seeds, nil
		}
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, objects(doc)...)
	}
}

func objects(doc any) []map[string]any {
	var all []map[string]any
	switch doc := doc.(type) {
	case []any:
		for _, one := range doc {
			all = append(all, objects(one)...)
		}
	case map[string]any:
		if doc["apiVersion"] != nil && doc["kind"] != nil {
			return []map[string]any{doc}
		}
		for _, key := range []string{"send", "base", "of"} {
			all = append(all, objects(doc[key])...)
		}
	}
	return all
}

// word reads text below a tree.
func word(tree any, path ...string) string {
	for _, name := range path {
		m, _ := tree.(map[string]any)
		tree = m[name]
	}
	s, _ := tree.(string)
	return s
}
