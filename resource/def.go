package resource

import (
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// Def declares one built-in kind; T is a pointer to its type in k8s.io/api. The zero value of every optional
// field is the common case. A Def is a package variable, used by address: *Def implements Kind.
type Def[T Object] struct {
	GVK        schema.GroupVersionKind
	Plural     string
	Singular   string   // "": the kind in lower case
	Short      []string // short names of kubectl
	Categories []string
	Namespaced bool
	Storage    string   // key below /registry/; "": the plural
	Verbs      []string // nil: all eight
	Virtual    bool     // a review or the like: create only unless Verbs says otherwise, never stored
	JSON       bool     // has no protobuf form: on the wire it is like a custom resource

	Name            func(name string, prefix bool) []string // nil: a DNS subdomain
	CreateOnUpdate  bool
	Generation      bool
	OrphanByDefault bool

	Quirks Quirks

	Default  func(T)
	Early    func(v schema.GroupVersion, obj T) // fills in what a version does that is served no longer; patches may still name it
	Prepare  func(obj, old T)                   // after the generic part: status cleared on create, kept on update
	Validate func(obj, old T) field.ErrorList
	Warn     func(obj, old T) []string
	Grace    func(obj T, asked *int64) int64
	TTL      func(T) time.Duration

	Deprecated string // warning that comes with every answer; "": none

	Gated Gated[T] // what depends on the version or on feature gates

	Status         bool // has a status subresource
	KeepStatus     bool // a new object may bring its status
	PrepareStatus  func(obj, old T)
	ValidateStatus func(obj, old T) field.ErrorList
	Parts          []Part[T]  // further subresources that write a part of the object itself
	Scale          *Scaled[T] // has a scale subresource
	Connect        []SubInfo  // subresources that the server answers by code of its own: log, exec, token…

	// Share puts parts that other objects of the kind have, too, in the place of those that are equal to them. Slices and maps of obj may
	// be those of objects that others read: they stay as they are. nil: there is nothing to share but owners of fields.
	Share func(obj T)

	// Seal returns an object in the form in which it is kept in memory, at a revision; nil: as it is. stored holds the
	// stored form, or nil. Rows, selectable fields and what depends on them see its outline.
	Seal func(obj T, stored []byte, rev int64) Object

	RowOrder func(a, b T) int                   // the order of a table's rows; nil: that of the list
	Marks    func(T) []metav1.TableRowCondition // what a table says of a row besides its cells; nil: nothing
	// Among returns what changes the cells of a row once all objects of its table are known; list is nil for one object that is
	// shown alone, or as an event of a watch. nil: a row depends on its object alone.
	Among   func(on *features.Set, list []T) func(obj T, cells []any)
	Columns []Column[T] // after NAME, unless one of them is called Name; AGE is a column too
	Select  []Field[T]  // selectable fields beside metadata.name and metadata.namespace
	Also    []Version[T]

	once sync.Once
	made *rules
}

// Complete gives a kind that another package declares by its names alone the rest: programs that do without the kind do not link that.
// It is for variables of packages; a kind that something has asked about is complete, and one that is completed later would be two.
func Complete[T Object](d *Def[T], rest func(*Def[T])) *Def[T] {
	if d.made != nil {
		panic(d.Plural + " is in use already")
	}
	rest(d)
	return d
}

// Gated are rules of a kind that depend on what is on in the cluster. Where no cluster is at hand they get the newest
// version's defaults. All are optional.
type Gated[T Object] struct {
	// Columns stand in place of those of the Def, NAME among them, unless nil. What is returned must not be made anew.
	Columns func(on *features.Set) []Column[T]
	// Generation says whether changes are counted, in place of the Def's.
	Generation func(on *features.Set) bool
	// Default fills in what has a default only while a feature is on; it runs after Default of the Def.
	Default func(on *features.Set, obj T)
	// Drop takes fields of features that are off out of obj, unless old uses them; it runs last of PrepareForWrite, for every path.
	Drop func(on *features.Set, obj, old T)
	// Validate and ValidateStatus stand in place of the functions of a Def of these names.
	Validate       func(on *features.Set, obj, old T) field.ErrorList
	ValidateStatus func(on *features.Set, obj, old T) field.ErrorList
	// Warn adds to the warnings.
	Warn func(on *features.Set, obj, old T) []string
}

// A Part is a subresource through which a part of the object is read and written.
type Part[T Object] struct {
	Name     string
	Verbs    []string         // nil: get, patch, update
	Resets   []string         // fields that a write through it can't own, as in Quirks
	Take     func(obj, old T) // restores from old all that this path may not change
	Validate func(on *features.Set, obj, old T) field.ErrorList
}

// Scaled says how a kind is scaled.
type Scaled[T Object] struct {
	Get func(T) Scale
	Set func(T, int32)
}

// A Field is a selectable field.
type Field[T Object] struct {
	Label string
	Value func(T) string
	Index bool // keep an index: Reader.ByField answers it
}

// A Version is another served version of a kind. From and To convert from and to the hub; they may share
// memory with their argument but must not change it.
type Version[T Object] struct {
	GVK  schema.GroupVersionKind
	New  func() Object
	From func(T) Object // hub → this version
	To   func(Object) T // this version → hub

	// Validate replaces the kind's own Validate for what is written in this version; nil: they agree.
	Validate func(obj, old T) field.ErrorList
}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// infoOf gathers the facts of a kind.
func infoOf(d *Def[Object]) Info {
	i := Info{GVK: d.GVK, Plural: d.Plural, Singular: d.Singular, ListKind: d.GVK.Kind + "List", Short: d.Short,
		Categories: d.Categories, Namespaced: d.Namespaced, Verbs: d.Verbs, Virtual: d.Virtual,
		CreateOnUpdate: d.CreateOnUpdate, OrphanByDefault: d.OrphanByDefault,
		Deprecated: d.Deprecated, Custom: d.JSON, Quirks: d.Quirks}
	if i.Singular == "" {
		i.Singular = strings.ToLower(d.GVK.Kind)
	}
	switch {
	case i.Verbs != nil:
	case d.Virtual:
		i.Verbs = []string{"create"}
	default:
		i.Verbs = allVerbs
	}
	if !d.Virtual || d.Storage != "" { // a virtual kind with a key is kept in memory by its maker
		i.Prefix = "/registry/" + orDefault(d.Storage, d.Plural) + "/"
	}
	for _, v := range d.Also {
		i.Also = append(i.Also, v.GVK)
	}
	i.Subs = subsOf(d)
	i.Selectable = []string{"metadata.name"}
	if d.Namespaced || len(d.Select) == 0 { // upstream refuses it only where a kind has labels of its own
		i.Selectable = append(i.Selectable, "metadata.namespace")
	}
	if len(d.Select) > 0 || d.JSON {
		i.Unselectable = orDefault(i.Unselectable, OtherField)
	}
	for _, f := range d.Select {
		i.Selectable = append(i.Selectable, f.Label)
		if f.Index {
			i.Indexed = append(i.Indexed, f.Label)
		}
	}
	return i
}

func subsOf(d *Def[Object]) (subs []SubInfo) {
	read := []string{"get", "patch", "update"}
	if d.Status {
		subs = append(subs, SubInfo{Name: "status", Verbs: read, Resets: append([]string{"spec"}, d.Quirks.StatusResets...)})
	}
	if d.Scale != nil {
		subs = append(subs, SubInfo{Name: "scale", Verbs: read,
			GVK: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}})
	}
	for _, p := range d.Parts {
		verbs := p.Verbs
		if verbs == nil {
			verbs = read
		}
		subs = append(subs, SubInfo{Name: p.Name, Verbs: verbs, Resets: p.Resets})
	}
	subs = append(subs, d.Connect...)
	coldsort.Func(subs, func(a, b SubInfo) int { return strings.Compare(a.Name, b.Name) })
	return subs
}

func orDefault(s, or string) string {
	if s == "" {
		return or
	}
	return s
}
