package openapi

import (
	"encoding/json"
	"fmt"

	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
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

// V2ToV3 makes a v3 document of a v2 document, both as JSON, for clients that ask for nothing else. What v2 can't say is
// missing in it. A document that the library is not up to is an error: it may be anybody's.
func V2ToV3(doc []byte) (newer []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			newer, err = nil, fmt.Errorf("convert an OpenAPI v2 document: %v", p)
		}
	}()
	var old spec.Swagger
	if err := json.Unmarshal(doc, &old); err != nil {
		return nil, fmt.Errorf("read an OpenAPI v2 document: %w", err)
	}
	if old.Paths == nil {
		old.Paths = &spec.Paths{}
	}
	for _, at := range old.Paths.Paths {
		for _, o := range []*spec.Operation{at.Get, at.Put, at.Post, at.Delete, at.Options, at.Head, at.Patch} {
			if o != nil && o.Responses == nil { // which it must have, and the library relies on
				o.Responses = &spec.Responses{}
			}
		}
	}
	out, err := json.Marshal(openapiconv.ConvertV2ToV3(&old))
	if err != nil {
		return nil, fmt.Errorf("convert an OpenAPI v2 document: %w", err)
	}
	return out, nil
}
