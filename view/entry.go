package view

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/resource"
)

// An Entry is one object at one revision. It is immutable; its methods are safe for concurrent use.
type Entry struct {
	Kind   resource.Kind
	Rev    int64           // its resourceVersion
	Object resource.Object // of the hub version, resourceVersion set, shared: never change it

	ns, name string
	size     int     // of the stored value in bytes; 0: unknown
	terms    []*term // what the index holds it under; guarded by View.mu
	sum      uint64  // of the object as it was stored; 0: not guarded
	enc      encodings
	last     atomic.Pointer[Entry] // see Change.Last
}

// NewEntry wraps an object that is in no view: an answer to a dry run, a read of the past. The entry owns obj
// and sets its resourceVersion, apiVersion and kind; rev 0 leaves the resourceVersion alone.
func NewEntry(k resource.Kind, rev int64, obj resource.Object) *Entry {
	if text := strconv.FormatInt(rev, 10); rev != 0 && obj.GetResourceVersion() != text {
		obj.SetResourceVersion(text)
	}
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		obj.GetObjectKind().SetGroupVersionKind(k.Info().GVK)
	}
	return &Entry{Kind: k, Rev: rev, Object: obj, ns: obj.GetNamespace(), name: obj.GetName()}
}

// Found is the object of what a lookup returned: nil for no entry.
func (e *Entry) Found() resource.Object {
	if e == nil {
		return nil
	}
	return e.Object
}

// Stored is the number of bytes that the stored value has; 0 when that is not known.
func (e *Entry) Stored() int { return e.size }

// Key returns the object's storage key, relative to the kind's prefix: name, or namespace/name.
func (e *Entry) Key() string {
	if e.ns == "" {
		return e.name
	}
	return e.ns + "/" + e.name
}

// A Change holds one object before and after one write.
type Change struct {
	Kind resource.Kind
	Rev  int64  // revision of the write
	Old  *Entry // nil: created
	New  *Entry // nil: deleted; Old then holds the last state

	seq uint64 // changes of one write share it
}

// Last returns Old with the revision of the change for its resourceVersion, as watchers see an object
// that left their sight. It is made once and shared. Old must not be nil.
func (c Change) Last() *Entry {
	if e := c.Old.last.Load(); e != nil && e.Rev == c.Rev {
		return e
	}
	e := NewEntry(c.Old.Kind, c.Rev, copyToStamp(c.Old.Object, c.Rev))
	e.enc.budget = c.Old.enc.budget
	c.Old.last.Store(e)
	return e
}

// copyToStamp returns a copy that may get another resourceVersion, or has it. Typed objects share all that hangs below
// them with the copy, as neither ever changes; trees are copied whole, since their resourceVersion hangs below as well.
func copyToStamp(obj resource.Object, rev int64) resource.Object {
	if s, ok := obj.(interface {
		Stamped(rev int64) resource.Object
	}); ok {
		return s.Stamped(rev)
	}
	from := reflect.ValueOf(obj)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return resource.Clone(obj)
	}
	if meta := from.Elem().FieldByName("ObjectMeta"); !meta.IsValid() || meta.Type() != reflect.TypeFor[metav1.ObjectMeta]() {
		return resource.Clone(obj)
	}
	to := reflect.New(from.Elem().Type())
	to.Elem().Set(from.Elem())
	return to.Interface().(resource.Object)
}

// compareEntries orders by storage key. A namespace that is the beginning of another one counts as followed
// by the slash that ends it in the key, so that the order here is the store's.
func compareEntries(a, b *Entry) int {
	if a.ns != b.ns {
		return compareNamespaces(a.ns, b.ns)
	}
	return strings.Compare(a.name, b.name)
}

func compareNamespaces(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return cmp.Compare(charAt(a, n), charAt(b, n))
}

func charAt(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return '/'
}

// The index has one tree for all that a kind is found by. A term says what: its first letter, then values
// ended by zero bytes, which occur in none of them.
func ownerTerm(uid string) string          { return string(ownerLetter) + uid }
func fieldTerm(label, value string) string { return "f" + label + "\x00" + value }
func labelTerm(label, value string) string { return "l" + label + "\x00" + value }

const ownerLetter = 'o'

// textsOf returns the terms that the object is found by.
func textsOf(k resource.Kind, obj resource.Object) (texts []string) {
	for label, value := range obj.GetLabels() {
		texts = append(texts, labelTerm(label, value))
	}
	for _, o := range obj.GetOwnerReferences() {
		texts = append(texts, ownerTerm(string(o.UID)))
	}
	for _, label := range k.Info().Indexed {
		texts = append(texts, fieldTerm(label, k.Field(obj, label)))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// sameTerms says, without making them, that the terms of two objects are the same.
func sameTerms(k resource.Kind, a, b resource.Object) bool {
	same := func(x, y metav1.OwnerReference) bool { return x.UID == y.UID }
	if !maps.Equal(a.GetLabels(), b.GetLabels()) ||
		!slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), same) {
		return false
	}
	return !slices.ContainsFunc(k.Info().Indexed, func(label string) bool { return k.Field(a, label) != k.Field(b, label) })
}
