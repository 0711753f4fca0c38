package crd

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource/codec"
)

// An Object is a custom resource: a tree of maps that knows which schema it is read by.
type Object struct {
	unstructured.Unstructured
	read   *version // nil: as it comes
	source *string  // as of Stored; only of one that was read from the store, and that nobody has changed
}

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	return &Object{*o.DeepCopy(), o.read, nil}
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(data []byte) error {
	_, err := o.UnmarshalStrict(data)
	return err
}

// UnmarshalStrict decodes JSON and prunes what the schema does not know. The strict errors name unknown and
// duplicate fields; the object is decoded all the same.
func (o *Object) UnmarshalStrict(data []byte) (strict []error, err error) {
	content, strict, err := codec.UnmarshalTree(data)
	if err != nil {
		return nil, err
	}
	if content == nil {
		return nil, errors.New("the object is null")
	}
	o.Object = content
	if o.read == nil {
		return strict, nil
	}
	unknown, err := o.read.coerce(content, true, false)
	if err != nil {
		return nil, err
	}
	for _, path := range unknown {
		strict = append(strict, fmt.Errorf("unknown field %q", path))
	}
	return strict, nil
}

// shallow returns a copy whose top and metadata can be changed; all else is shared.
func (o *Object) shallow() *Object {
	c := &Object{read: o.read}
	c.Object = maps.Clone(o.Object)
	if c.Object == nil {
		c.Object = map[string]any{}
	}
	if m, ok := c.Object["metadata"].(map[string]any); ok {
		c.Object["metadata"] = maps.Clone(m)
	}
	return c
}
