// Package packed reads definitions of kinds that are packed into the program.
package packed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// Definitions reads what TestPacked packs: a file of definitions.
func Definitions(packed []byte) (list []*apiextensionsv1.CustomResourceDefinition, err error) {
	text, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("read packed definitions: %w", err)
	}
	for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(doc, d); err != nil {
			return nil, fmt.Errorf("read packed definitions: %w", err)
		}
		list = append(list, d)
	}
	return list, nil
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
