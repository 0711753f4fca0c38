// Package resource says what a kind is. A kind is one Def value: names, scope, defaulting, validation,
// subresources, columns. Routes, storage, discovery, tables, field ownership and tests all follow from it.
//
// The package stands at the foot of the ladder: it knows API machinery and which features are on, no kind and no server.
package resource

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
)

// Object is an API object with metadata. Objects handed out by a Reader are shared and must not be changed:
// Clone first.
type Object interface {
	runtime.Object
	metav1.Object
}

// Clone returns a deep copy of obj that its owner may change.
func Clone[T Object](obj T) T { return obj.DeepCopyObject().(T) }

// Revision is the revision of the store at which obj was last written, as its resourceVersion says: 0 if that is no number.
// What orders states of one object asks this; what only tells whether it is the same state compares the text.
func Revision(obj metav1.Object) int64 {
	rev, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return rev
}

// Shallow returns a copy of obj whose owner may set fields of it and of its metadata, but must not change what they point to: a typed
// object shares that with its copy. All others are cloned.
func Shallow(obj Object) Object {
	from := reflect.ValueOf(obj)
	if _, sealed := obj.(Sealed); sealed || from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return Clone(obj)
	}
	meta := from.Elem().FieldByName("ObjectMeta")
	if !meta.IsValid() || meta.Type() != reflect.TypeFor[metav1.ObjectMeta]() {
		return Clone(obj)
	}
	to := reflect.New(from.Elem().Type())
	to.Elem().Set(from.Elem())
	return to.Interface().(Object)
}

// Sealed is implemented by objects that are kept in a form that is small and slow to read.
type Sealed interface {
	// Open returns the object in a form that is quick to read, for the caller alone.
	Open() Object
}

// Opened returns obj in a form that is quick to read, for those who look at it more than once.
func Opened(obj Object) Object {
	if s, ok := obj.(Sealed); ok {
		return s.Open()
	}
	return obj
}

// As returns obj as its Go type, opened if it is sealed.
func As[T Object](obj Object) T {
	if t, ok := obj.(T); ok {
		return t
	}
	return Opened(obj).(T)
}

// Differing is implemented by sealed objects that can tell of others, without being opened, that they are not the same.
type Differing interface {
	// Differs says that an open object of the kind is not the same; false says nothing.
	Differs(from Object) bool
}

// Rewriting is implemented by sealed objects that know what is stored of others which share with them what is heavy.
type Rewriting interface {
	// Rewritten returns what the codec would store of an open object; nil when it must be asked.
	Rewritten(obj Object) []byte
}

// Outlined is implemented by sealed objects that show all but what is heavy without being opened.
type Outlined interface {
	// Outline returns the object without what its kind says is heavy. It is shared.
	Outline() Object
}

// Outline returns obj as its Go type, without what is heavy if it is sealed.
func Outline[T Object](obj Object) T { return As[T](outlined(obj)) }

func outlined(obj Object) Object {
	if o, ok := obj.(Outlined); ok {
		return o.Outline()
	}
	return obj
}

// Outlines yields all objects of a kind without what is heavy.
func Outlines[T Object](r Reader, d *Def[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for o := range r.Each(d, "") {
			if !yield(Outline[T](o)) {
				return
			}
		}
	}
}

// Info holds the facts of a kind that need no code. It never changes once the kind is in a Set.
type Info struct {
	GVK        schema.GroupVersionKind // the version that is stored and that Go code works with (the hub)
	Plural     string
	Singular   string
	ListKind   string
	Short      []string
	Categories []string
	Namespaced bool
	Verbs      []string                  // of get list watch create update patch delete deletecollection
	Prefix     string                    // storage key prefix with both slashes: /registry/services/specs/
	Also       []schema.GroupVersionKind // further versions served, also of other groups; Convert changes between them
	Subs       []SubInfo                 // subresources in the order of discovery
	Custom     bool                      // defined by a CustomResourceDefinition, or like it: stored as JSON, no protobuf
	Virtual    bool                      // never stored: the server computes the answer

	CreateOnUpdate  bool     // PUT to a missing name creates
	OrphanByDefault bool     // deletion leaves dependents unless asked otherwise
	Deprecated      string   // warning that comes with every answer about the kind; "": none
	Indexed         []string // field labels that Readers answer by index (see Reader.ByField)
	Selectable      []string // field labels allowed in field selectors, metadata.name and metadata.namespace included

	Quirks
}

// SubInfo describes a subresource for discovery and routing.
type SubInfo struct {
	Name  string                  // "status", "log", …
	GVK   schema.GroupVersionKind // of the body; zero: the kind's own
	Verbs []string                // as in discovery: get, patch, update, create…

	Resets []string // fields that a write through it can't own, as in Quirks
}

// Served returns every group, version and kind under which the kind is served, the hub first.
func (i *Info) Served() []schema.GroupVersionKind {
	return append([]schema.GroupVersionKind{i.GVK}, i.Also...)
}

// GR is the kind's group and resource: its identity.
func (i *Info) GR() schema.GroupResource {
	return schema.GroupResource{Group: i.GVK.Group, Resource: i.Plural}
}

// Key returns the storage key of the named object; ns is empty for cluster-scoped kinds.
func (i *Info) Key(ns, name string) string {
	if i.Namespaced {
		return i.Prefix + ns + "/" + name
	}
	return i.Prefix + name
}

// Sub finds a subresource by name.
func (i *Info) Sub(name string) (SubInfo, bool) {
	for _, s := range i.Subs {
		if s.Name == name {
			return s, true
		}
	}
	return SubInfo{}, false
}

// Kind is a Def with its Go type erased. Built-in kinds are *Def values; custom resources implement the
// same interface, so the server has one path for both. All methods are safe for concurrent use; objects
// passed in are of the kind's hub type unless said otherwise, and old is nil on create. Methods whose answer depends on
// a cluster's features take which are on, so that nobody gets the newest version's rules by mistake; nil asks for these.
type Kind interface {
	Info() *Info

	// New returns an empty object of the given served version (the hub's or one of Info().Also) with its
	// apiVersion and kind set.
	New(gvk schema.GroupVersionKind) Object
	// ConvertTo returns obj in the given served version: obj itself when it has that version already.
	ConvertTo(ctx context.Context, obj Object, gvk schema.GroupVersionKind) (Object, error)

	// SetDefaults fills unset fields. It runs on what clients send, before admission and again after it.
	SetDefaults(on *features.Set, obj Object)
	// PrepareForWrite makes obj what may be stored through the given subresource ("" is the object itself): on
	// update it restores from old all that this path may not change, on create it clears what only the
	// server or other paths set. It leaves metadata alone, except where the kind has rules of its own.
	PrepareForWrite(on *features.Set, sub string, obj, old Object)
	// Check returns every violation of the kind's rules by an object that was sent in the given version, which may have
	// rules of its own (nil: the hub); the generic rules of metadata are not its business.
	Check(on *features.Set, sent *schema.GroupVersionKind, sub string, obj, old Object) field.ErrorList
	// Warnings returns the texts of warnings that a write of obj deserves.
	Warnings(on *features.Set, obj, old Object) []string
	// Scaled says how the scale subresource is read and written; nil for kinds without one.
	Scaled() *Scaled[Object]

	// Header returns the table's columns, NAME first.
	Header(on *features.Set) []metav1.TableColumnDefinition
	// Rows returns what makes the cells of each object of a list, at least as many as there are columns. list may be nil for kinds
	// whose rows depend on one object each.
	Rows(on *features.Set, list []Object) func(obj Object) []any
	// Field returns the value of a selectable field; "" of one that the kind does not have.
	Field(obj Object, label string) string
}

// Versioned is implemented by kinds whose versions differ in more than their types.
type Versioned interface {
	// In returns the kind as it is served in one of its versions, with the facts, columns and rules of that
	// version; ok is false for versions that are not served. Objects given to it are of the hub version all the same.
	In(gvk schema.GroupVersionKind) (k Kind, ok bool)
}

// Redefined is implemented by kinds of which objects may be stored that lack a default, or have a field that is pruned, by now.
type Redefined interface {
	Since() int64 // objects of this revision and later were written by the rules of today; 0: all
}

// In returns the kind as it is served in a version.
func In(k Kind, gvk schema.GroupVersionKind) (Kind, bool) {
	if v, ok := k.(Versioned); ok {
		return v.In(gvk)
	}
	return k, true
}

// Scale is the content of a scale subresource.
type Scale struct {
	Replicas int32  // wanted
	Current  int32  // observed
	Selector string // in string form
}

// Reader answers reads from an unchanging state of the cluster. Everything it returns is shared: Clone
// before changing. The sequences are ordered by namespace, then name.
type Reader interface {
	// Revision is the store revision of the state for the kind; every write of the kind at or below it is
	// visible. In the server's own process it is the same for all kinds.
	Revision(k Kind) int64
	// Lookup returns the object, or nil.
	Lookup(k Kind, ns, name string) Object
	// Each yields the objects of the kind in the namespace; "" means in all.
	Each(k Kind, ns string) iter.Seq[Object]
	// ByOwner yields the objects of the kind that have an ownerReference to the uid (controller or not).
	ByOwner(k Kind, uid string) iter.Seq[Object]
	// ByField yields the objects whose field has the value. A label that is not in Info().Indexed is a mistake in the program: it
	// panics (MustIndex), as finding nothing would look like an answer.
	ByField(k Kind, label, value string) iter.Seq[Object]
	// ByLabel yields the objects in the namespace that carry label=value.
	ByLabel(k Kind, ns, label, value string) iter.Seq[Object]
}

// Get returns the named object, or nil.
func Get[T Object](r Reader, d *Def[T], ns, name string) (obj T) {
	if o := r.Lookup(d, ns, name); o != nil {
		return As[T](o)
	}
	return obj
}

// List returns the objects of a kind in the namespace; "" means in all.
func List[T Object](r Reader, d *Def[T], ns string) []T { return collect[T](r.Each(d, ns)) }

// Owned returns the objects of a kind whose controller is owner.
func Owned[T Object](r Reader, d *Def[T], owner metav1.Object) (list []T) {
	for o := range r.ByOwner(d, string(owner.GetUID())) {
		if c := metav1.GetControllerOfNoCopy(o); c != nil && c.UID == owner.GetUID() {
			list = append(list, As[T](o))
		}
	}
	return list
}

// Where returns the objects whose indexed field has the value.
func Where[T Object](r Reader, d *Def[T], label, value string) []T {
	return collect[T](r.ByField(d, label, value))
}

// MustIndex panics unless the field is one that readers of the kind answer by index.
func MustIndex(k Kind, label string) {
	if i := k.Info(); !slices.Contains(i.Indexed, label) {
		panic(fmt.Sprintf("resource: %q is not an index of %s", label, i.GR()))
	}
}

func collect[T Object](seq iter.Seq[Object]) (list []T) {
	for o := range seq {
		list = append(list, As[T](o))
	}
	return list
}
