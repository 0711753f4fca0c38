package crd

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"unique"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// A Stored is a custom resource as it lies in memory: its JSON of the hub version, resourceVersion included, which may
// be packed together with others. A tree of maps takes ten times as much. What is asked of the metadata is read from the
// text, and keeps nothing of it alive; who wants more opens it. It never changes, so it may be shared; its setters panic:
// clone it first, which makes a tree.
type Stored struct {
	frozen

	read   *version
	source *string                    // what lies in the store, where the text is not that: it was pruned, or was of another version
	at     atomic.Pointer[packedText] // of the text, which may move
}

var (
	_ resource.Object      = (*Stored)(nil)
	_ resource.Sealed      = (*Stored)(nil)
	_ runtime.Unstructured = (*Stored)(nil)
	_ resource.Differing   = (*Stored)(nil)
	_ codec.StoredMaker    = (*Stored)(nil)
)

// Pack implements view.Packer: it returns an object, which is of the hub version, as it lies in memory. text is its
// JSON without resourceVersion, if the caller has it.
func (k *Kind) Pack(obj resource.Object, text []byte, rev int64) resource.Object {
	o, ok := obj.(*Object)
	if !ok || o.GroupVersionKind() != k.hub.gvk {
		return obj // not yet what it is to become
	}
	source := o.source
	if text != nil {
		source = nil
	} else {
		var err error
		if text, err = codec.MarshalJSON(o); err != nil {
			return obj
		}
	}
	s := stamp(unsafe.String(unsafe.SliceData(text), len(text)), strconv.FormatInt(rev, 10))
	if s == nil {
		return obj
	}
	if s.read = o.read; s.read == nil {
		s.read = k.hub
	}
	if source != nil && strings.TrimSuffix(*source, "\n") != string(text) {
		s.source = source
	}
	return s
}

// stamp gives a text another resourceVersion, or one at all; nil if it has no metadata.
func stamp(text, rev string) *Stored {
	at, ok := metadataAt(text)
	if !ok {
		return nil
	}
	const name = "resourceVersion"
	first := int(at) + 1
	from, to := first, first // what gives way
	eachMember(text, int(at), func(key string, begin, _, end int) bool {
		switch {
		case key < name:
			from, to = end, end
		case key == name:
			from, to = begin, end
		}
		return key < name
	})
	member := `"` + name + `":"` + rev + `"`
	switch {
	case from < to, text[from] == '}' && from == first: // in the place of another one, or alone
	case from == first:
		member += ","
	default:
		member = "," + member
	}
	s := &Stored{}
	s.at.Store(alone(text[:from]+member+text[to:], at))
	return s
}

// Stamped returns the object with another resourceVersion.
func (s *Stored) Stamped(rev int64) resource.Object {
	var out *Stored
	s.at.Load().look(func(text string) { out = stamp(text, strconv.FormatInt(rev, 10)) })
	out.read, out.source = s.read, s.source
	return out
}

// unstamped is a text without its resourceVersion.
func unstamped(text string, meta int) []byte {
	from, to := 0, 0
	eachMember(text, meta, func(key string, begin, _, end int) bool {
		switch {
		case key != "resourceVersion":
		case text[end] == ',':
			from, to = begin, end+1
		case text[begin-1] == ',': // the last one
			from, to = begin-1, end
		default: // the only one
			from, to = begin, end
		}
		return key < "resourceVersion"
	})
	return append(append(make([]byte, 0, len(text)), text[:from]...), text[to:]...)
}

// MakeStored implements codec.StoredMaker.
func (s *Stored) MakeStored() (stored []byte) {
	if s.source != nil {
		return []byte(*s.source)
	}
	at := s.at.Load()
	at.look(func(text string) { stored = unstamped(text, int(at.meta)) })
	return stored
}

// Differs implements resource.Differing: it compares what lies beside the metadata, member by member.
func (s *Stored) Differs(from resource.Object) (differs bool) {
	o, ok := from.(*Object)
	if !ok {
		return false
	}
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	s.at.Load().look(func(text string) {
		members, known := 0, true
		eachMember(text, 0, func(key string, _, start, end int) bool {
			members++
			if key == "metadata" {
				return true
			}
			v, has := o.Object[key]
			value, err := codec.AppendTree((*room)[:0], v)
			if known = err == nil && (has || strings.IndexByte(key, '\\') < 0); known {
				*room, differs = value, !has || string(value) != text[start:end]
			}
			return known && !differs
		})
		differs = known && (differs || members != len(o.Object))
	})
	return differs
}

// EncodedJSON implements codec.Encoded.
func (s *Stored) EncodedJSON(room *[]byte) []byte { return s.at.Load().bytes(room) }

// MarshalJSON implements json.Marshaler.
func (s *Stored) MarshalJSON() ([]byte, error) { return s.at.Load().append(nil), nil }

// Open implements resource.Sealed: it returns a tree of the caller's own.
func (s *Stored) Open() resource.Object { return s.open() }

func (s *Stored) open() *Object {
	o := &Object{read: s.read}
	at, ok := s.at.Load(), false
	at.look(func(text string) {
		if at != &at.in.one { // it lies in room that is used again, or together with others
			text = strings.Clone(text)
		}
		if o.Object, ok = codec.ReadTree(text); ok {
			return
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(unsafe.Slice(unsafe.StringData(text), len(text)), &o.Object); err != nil {
			panic(fmt.Sprintf("a custom resource in memory is no JSON: %v", err)) // this process has encoded it
		}
	})
	return o
}

// DeepCopyObject implements runtime.Object: the copy is a tree.
func (s *Stored) DeepCopyObject() runtime.Object { return s.open() }

// UnstructuredContent implements runtime.Unstructured. Every call makes another tree.
func (s *Stored) UnstructuredContent() map[string]any { return s.open().Object }

// NewEmptyInstance implements runtime.Unstructured.
func (s *Stored) NewEmptyInstance() runtime.Unstructured { return &Object{read: s.read} }

// IsList implements runtime.Unstructured.
func (s *Stored) IsList() bool { return false }

// EachListItem implements runtime.Unstructured.
func (s *Stored) EachListItem(func(runtime.Object) error) error {
	return fmt.Errorf("a %s is no list", s.GroupVersionKind().Kind)
}

// EachListItemWithAlloc implements runtime.Unstructured.
func (s *Stored) EachListItemWithAlloc(f func(runtime.Object) error) error { return s.EachListItem(f) }

// GetObjectKind implements runtime.Object.
func (s *Stored) GetObjectKind() schema.ObjectKind { return s }

// GroupVersionKind implements schema.ObjectKind.
func (s *Stored) GroupVersionKind() schema.GroupVersionKind { return s.read.gvk }

// SetGroupVersionKind implements schema.ObjectKind: it may say once more what the object is.
func (s *Stored) SetGroupVersionKind(gvk schema.GroupVersionKind) {
	if gvk != s.read.gvk {
		panic(frozenText)
	}
}

// field returns the raw JSON of a member of the metadata; "" when there is none.
func (s *Stored) field(name string) (raw string) {
	at := s.at.Load()
	at.look(func(text string) {
		eachMember(text, int(at.meta), func(key string, _, start, end int) bool {
			if key == name {
				raw = strings.Clone(text[start:end])
			}
			return key < name // they are in order
		})
	})
	return raw
}

func (s *Stored) str(name string) string { return unquoted(s.field(name)) }

// decode reads a member of the metadata; what is not there stays as it is.
func decode[T any](s *Stored, name string) (out T) {
	if raw := s.field(name); raw != "" {
		_ = json.Unmarshal([]byte(raw), &out) // it was encoded from the same type
	}
	return out
}

// GetName implements metav1.Object, as do all that follow.
func (s *Stored) GetName() string { return s.str("name") }

// GetNamespace implements metav1.Object. All objects of a namespace share its name.
func (s *Stored) GetNamespace() string { return unique.Make(s.str("namespace")).Value() }

// GetGenerateName implements metav1.Object.
func (s *Stored) GetGenerateName() string { return s.str("generateName") }

// GetUID implements metav1.Object.
func (s *Stored) GetUID() types.UID { return types.UID(s.str("uid")) }

// GetResourceVersion implements metav1.Object.
func (s *Stored) GetResourceVersion() string { return s.str("resourceVersion") }

// GetSelfLink implements metav1.Object.
func (s *Stored) GetSelfLink() string { return s.str("selfLink") }

// GetGeneration implements metav1.Object.
func (s *Stored) GetGeneration() int64 {
	n, _ := strconv.ParseInt(s.field("generation"), 10, 64)
	return n
}

// GetCreationTimestamp implements metav1.Object.
func (s *Stored) GetCreationTimestamp() metav1.Time {
	return decode[metav1.Time](s, "creationTimestamp")
}

// GetDeletionTimestamp implements metav1.Object.
func (s *Stored) GetDeletionTimestamp() *metav1.Time {
	return decode[*metav1.Time](s, "deletionTimestamp")
}

// GetDeletionGracePeriodSeconds implements metav1.Object.
func (s *Stored) GetDeletionGracePeriodSeconds() *int64 {
	return decode[*int64](s, "deletionGracePeriodSeconds")
}

// GetLabels implements metav1.Object.
func (s *Stored) GetLabels() map[string]string { return stringMap(s.field("labels")) }

// GetAnnotations implements metav1.Object.
func (s *Stored) GetAnnotations() map[string]string { return stringMap(s.field("annotations")) }

// GetFinalizers implements metav1.Object.
func (s *Stored) GetFinalizers() []string { return decode[[]string](s, "finalizers") }

// GetOwnerReferences implements metav1.Object.
func (s *Stored) GetOwnerReferences() []metav1.OwnerReference {
	return decode[[]metav1.OwnerReference](s, "ownerReferences")
}
