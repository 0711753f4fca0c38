package apiextensions

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gvks "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Sealed is a definition as it lies in memory: what is stored of it, and the object without its schemas, which are
// ten times as large when they are read. It never changes, so it may be shared: clone it first. As long as somebody holds
// the open definition, it is not read again.
type Sealed struct {
	metav1.Object // of the outline
	outline       crd
	stored        []byte

	mu   sync.Mutex
	held weak.Pointer[apiextensionsv1.CustomResourceDefinition] // guarded by mu
}

var (
	_ resource.Object    = (*Sealed)(nil)
	_ resource.Sealed    = (*Sealed)(nil)
	_ resource.Outlined  = (*Sealed)(nil)
	_ resource.Differing = (*Sealed)(nil)
	_ resource.Rewriting = (*Sealed)(nil)
	_ codec.Maker        = (*Sealed)(nil)
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
	return &Sealed{Object: out, outline: out, stored: slices.Clip(stored), held: weak.Make(c)}
}

// Outline returns a definition without its schemas: a version that has one has an empty one. The rest is shared.
func Outline(c crd) crd {
	out := *c
	out.Spec.Versions = slices.Clone(c.Spec.Versions)
	for i := range out.Spec.Versions {
		if v := &out.Spec.Versions[i]; v.Schema != nil {
			v.Schema = &apiextensionsv1.CustomResourceValidation{}
		}
	}
	return &out
}

// Outline implements resource.Outlined.
func (s *Sealed) Outline() resource.Object { return s.outline }

// Open implements resource.Sealed. The definition is shared.
func (s *Sealed) Open() resource.Object { return s.open() }

// open reads the definition from what is stored, or takes the one that somebody still holds: the weak pointer lets it go with its last
// reader.
func (s *Sealed) open() crd {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.held.Value(); c != nil {
		return c
	}
	c := s.read()
	s.held = weak.Make(c)
	return c
}

// read returns a definition of the caller's own.
func (s *Sealed) read() crd {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := codec.UnmarshalProto(s.stored, out); err != nil {
		panic(fmt.Sprintf("a definition in memory can't be read: %v", err)) // this process has encoded it
	}
	out.TypeMeta, out.ResourceVersion = s.outline.TypeMeta, s.outline.ResourceVersion
	return out
}

// Differs implements resource.Differing: what is written most is the status.
func (s *Sealed) Differs(from resource.Object) bool {
	c, ok := from.(crd)
	return ok && !equality.Semantic.DeepEqual(c.Status, s.outline.Status)
}

// Stamped returns the definition with another resourceVersion.
func (s *Sealed) Stamped(rev int64) resource.Object {
	out := *s.outline
	out.ResourceVersion = strconv.FormatInt(rev, 10)
	return &Sealed{Object: &out, outline: &out, stored: s.stored}
}

// DeepCopyObject implements runtime.Object: the copy is open.
func (s *Sealed) DeepCopyObject() runtime.Object { return s.read() }

// GetObjectKind implements runtime.Object.
func (s *Sealed) GetObjectKind() gvks.ObjectKind { return s.outline.GetObjectKind() }

// MakeStored implements codec.Maker.
func (s *Sealed) MakeStored() []byte { return s.stored }

// MarshalJSON implements json.Marshaler.
func (s *Sealed) MarshalJSON() ([]byte, error) { return s.MakeJSON() }
