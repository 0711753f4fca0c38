// Package packed keeps large JSON documents in small files that a program embeds: texts that JSON repeats are a byte each (Short),
// what stood in the document before is named by where (Fold), and gzip packs what is left.
package packed

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// Pack makes the file of a value.
func Pack(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode what is to be packed: %w", err)
	}
	for i, text := range Short {
		if text != "" {
			raw = bytes.ReplaceAll(raw, []byte(text), []byte{byte(i)})
		}
	}
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zip.Write(Fold(raw)); err != nil {
		return nil, err
	}
	err = zip.Close()
	return b.Bytes(), err
}

// Unpack reads a file of Pack's into a value.
func Unpack(file []byte, into any) error {
	zip, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("open the packed document: %w", err)
	}
	raw, err := io.ReadAll(zip)
	if err == nil {
		raw, err = Unfold(raw)
	}
	if err != nil {
		return fmt.Errorf("unpack the document: %w", err)
	}
	if err := json.Unmarshal(lengthen(raw), into); err != nil {
		return fmt.Errorf("read the packed document: %w", err)
	}
	return nil
}
