package apiextensions

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Draft is a definition that is to be written with the schemas that it has: copies of it share them.
type Draft struct {
	*apiextensionsv1.CustomResourceDefinition
}

// DeepCopyObject implements runtime.Object: the copy is a plain definition.
func (d Draft) DeepCopyObject() runtime.Object {
	out := Outline(d.CustomResourceDefinition).DeepCopy()
	for i := range out.Spec.Versions {
		out.Spec.Versions[i].Schema = d.Spec.Versions[i].Schema
	}
	return out
}

// The fields of a definition in protobuf.
const (
	metaField protowire.Number = iota + 1
	specField
	statusField
)

// Rewritten implements resource.Rewriting: what is stored of a definition with the same spec in memory, as that of a new
// status is, is the old bytes but for what is small.
func (s *Sealed) Rewritten(obj resource.Object) []byte {
	s.mu.Lock()
	held := s.held.Value()
	s.mu.Unlock()
	c, ok := obj.(crd)
	if !ok || held == nil || !sameVersions(c, held) {
		return nil
	}
	is, was := c.Spec, held.Spec
	if is.Versions, was.Versions = nil, nil; !reflect.DeepEqual(is, was) {
		return nil
	}
	gvk, old, err := codec.OpenEnvelope(s.stored)
	spec := fieldOf(old, specField)
	if err != nil || spec == nil || gvk != CustomResourceDefinitions.GVK {
		return nil
	}
	meta, err1 := c.ObjectMeta.Marshal()
	status, err2 := c.Status.Marshal()
	if err1 != nil || err2 != nil {
		return nil
	}
	var out []byte
	for i, part := range [...][]byte{meta, spec, status} {
		out = protowire.AppendBytes(protowire.AppendTag(out, metaField+protowire.Number(i), protowire.BytesType), part)
	}
	return codec.Envelope(gvk, out)
}

// fieldOf is the content of a field of a message; nil when there is none.
func fieldOf(message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		n, _, size := protowire.ConsumeField(message)
		if size < 0 {
			return nil
		}
		if n == field {
			_, _, tag := protowire.ConsumeTag(message)
			content, _ := protowire.ConsumeBytes(message[tag:size])
			return content
		}
		message = message[size:]
	}
	return nil
}

// sameVersions says that the versions of two definitions are the very same in memory, which is so when only the status is written.
func sameVersions(a, b crd) bool {
	x, y := a.Spec.Versions, b.Spec.Versions
	return len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
}
