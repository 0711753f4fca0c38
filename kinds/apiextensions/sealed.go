package apiextensions

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Sealed is a definition as it lies in memory: what is stored of it, and the object without its schemas, which are
// ten times as large when they are read. It never changes, so it may be shared: clone it first.
type Sealed struct {
	metav1.Object // of the outline
	outline       crd
	stored        []byte
}

var (
	_ resource.Object   = (*Sealed)(nil)
	_ resource.Sealed   = (*Sealed)(nil)
	_ resource.Outlined = (*Sealed)(nil)
)

// seal implements resource.Def's Seal.
func seal(c crd, stored []byte, rev int64) resource.Object {
	if stored == nil {
		var err error
		plain := *c
		plain.ResourceVersion = ""
		if stored, err = codec.MarshalProto(&plain); err != nil {
			return c
		}
	}
	c.ResourceVersion = strconv.FormatInt(rev, 10)
	out := Outline(c)
	return &Sealed{Object: out, outline: out, stored: slices.Clip(stored)}
}

// Outline returns a definition without its schemas: a version that has one has an empty one. The rest is shared.
func Outline(c crd) crd {
	out := *c
	out.Spec.Versions = slices.Clone(c.Spec.Versions)
	for i := range out.Spec.Versions {
		if v := &out.Spec.Versions[i]; v.Schema != nil {
			v.Schema = &v1.CustomResourceValidation{}
		}
	}
	return &out
}

// Outline implements resource.Outlined.
func (s *Sealed) Outline() resource.Object { return s.outline }

// Open implements resource.Sealed.
func (s *Sealed) Open() resource.Object { return s.open() }

func (s *Sealed) open() crd {
	out := &v1.CustomResourceDefinition{}
	if err := codec.UnmarshalProto(s.stored, out); err != nil {
		panic(fmt.Sprintf("a definition in memory can't be read: %v", err)) // this process has encoded it
	}
	out.TypeMeta, out.ResourceVersion = s.outline.TypeMeta, s.outline.ResourceVersion
	return out
}

// Stamped returns the definition with another resourceVersion.
func (s *Sealed) Stamped(rev int64) resource.Object {
	out := *s.outline
	out.ResourceVersion = strconv.FormatInt(rev, 10)
	return &Sealed{Object: &out, outline: &out, stored: s.stored}
}

// DeepCopyObject implements runtime.Object: the copy is open.
func (s *Sealed) DeepCopyObject() runtime.Object { return s.open() }

// GetObjectKind implements runtime.Object.
func (s *Sealed) GetObjectKind() runtimeschema.ObjectKind { return s.outline.GetObjectKind() }

// MarshalJSON implements json.Marshaler.
func (s *Sealed) MarshalJSON() ([]byte, error) { return codec.MarshalJSON(s.open()) }
