package openapi

import (
	"encoding/json"
	"fmt"
)

// V2ToProto writes a v2 document, given as JSON, in the protobuf form.
func V2ToProto(doc []byte) ([]byte, error) { return toProto(doc, v2Messages) }

// V3ToProto writes a v3 document, given as JSON, in the protobuf form.
func V3ToProto(doc []byte) ([]byte, error) { return toProto(doc, v3Messages) }

func toProto(doc []byte, layouts map[string]layout) ([]byte, error) {
	var o object
	if err := json.Unmarshal(doc, &o); err != nil {
		return nil, fmt.Errorf("read an OpenAPI document: %w", err)
	}
	return encode(o, layouts, "Document")
}
