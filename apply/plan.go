package apply

import (
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gvks "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A node is the plan for one Go type in one place of the schema: what to do with its fields, worked out once.
type node struct {
	op     op
	eq     equal
	fields []fieldNode   // of a struct, by name
	elem   *node         // of maps and lists
	keys   []keyNode     // of keyed lists, by name
	blank  reflect.Value // of a whole object: a pointer to one without anything
}

// A fieldNode is a field of a struct.
type fieldNode struct {
	name  string
	text  string // as a step: f:name
	index []int
	omit  func(reflect.Value) bool // nil: never left out
	node  *node
}

// A keyNode is a field that identifies the items of a list.
type keyNode struct {
	name  string
	index []int
	omit  func(reflect.Value) bool
	def   scalar // when the field is left out
	isDef bool
}

// planned remembers the plans of built-in types. They follow from the binary alone, so all trackers of a process
// share them, and kinds share what they have in common: a pod's plan is a part of a deployment's.
var planned plans

type plans struct {
	m    sync.Map // planKey to *node
	mu   sync.Mutex
	made *compiler
}

type planKey struct {
	t   reflect.Type
	gvk gvks.GroupVersionKind
}

// of returns the plan for objects of a Go type, or nil if the kind is none of the built-in ones.
func (p *plans) of(t reflect.Type, gvk gvks.GroupVersionKind) *node {
	k := planKey{t, gvk}
	if n, ok := p.m.Load(k); ok {
		return n.(*node)
	}
	kinds, known := builtin()
	typ, ok := kinds[gvk]
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = &compiler{schema: known, done: map[compiled]*node{}}
	}
	n := *p.made.node(t, typ.TypeRef)
	p.made.skipMeta(&n)
	n.blank = reflect.New(t)
	got, _ := p.m.LoadOrStore(k, &n)
	return got.(*node)
}

type compiled struct {
	t    reflect.Type
	name string // of the schema
	rel  schema.ElementRelationship
}

type compiler struct {
	schema *schema.Schema
	done   map[compiled]*node
}

// ours are the fields that nobody owns; oursMeta those of the metadata, the name first.
var ours = []string{"apiVersion", "kind"}
var oursMeta = []string{"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
	"resourceVersion"}

// skipMeta takes the fields that nobody owns out of a plan.
func (c *compiler) skipMeta(n *node) {
	if n.op != opStruct {
		return
	}
	n.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f fieldNode) bool { return slices.Contains(ours, f.name) })
	for i := range n.fields {
		if f := &n.fields[i]; f.name == "metadata" && f.node.op == opStruct {
			meta := *f.node
			meta.eq = func(_, _ reflect.Value) bool { return true } // nobody owns it as a whole
			meta.fields = slices.DeleteFunc(slices.Clone(meta.fields), func(f fieldNode) bool { return slices.Contains(oursMeta, f.name) })
			f.node = &meta
		}
	}
}

// node plans a type. Types may be recursive.
func (c *compiler) node(t reflect.Type, tr schema.TypeRef) *node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if eq, ok := scalarTypes[t]; ok {
		return &node{op: opLeaf, eq: eq}
	}
	if value.TypeReflectEntryOf(t).CanConvertToUnstructured() { // it may write anything
		return &node{op: opUnknown, eq: equalOf(t)}
	}
	id := compiled{t: t}
	if tr.NamedType != nil {
		id.name = *tr.NamedType
		if tr.ElementRelationship != nil {
			id.rel = *tr.ElementRelationship
		}
		if n := c.done[id]; n != nil {
			return n
		}
	}
	n := &node{eq: equalOf(t)}
	if id.name != "" {
		c.done[id] = n
	}
	atom, ok := c.schema.Resolve(tr)
	if !ok {
		n.op = opUnknown
		return n
	}
	c.fill(n, t, atom)
	return n
}

func (c *compiler) fill(n *node, t reflect.Type, atom schema.Atom) {
	n.op = opUnknown
	switch t.Kind() {
	case reflect.Struct:
		if atom.Map == nil {
			return
		}
		if n.op = opLeaf; atom.Map.ElementRelationship != schema.Atomic {
			n.op, n.fields = opStruct, c.fields(t, atom.Map)
		}
	case reflect.Map:
		if atom.Map == nil || t.Key().Kind() != reflect.String {
			return
		}
		if n.op = opLeaf; atom.Map.ElementRelationship != schema.Atomic {
			n.op, n.elem = opMap, c.node(t.Elem(), atom.Map.ElementType)
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			n.op = opLeaf
		} else if atom.List != nil {
			c.list(n, t, atom.List)
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		if atom.Scalar != nil {
			n.op = opLeaf
		}
	}
}

func (c *compiler) list(n *node, t reflect.Type, l *schema.List) {
	if l.ElementRelationship != schema.Associative {
		n.op = opLeaf
		return
	}
	n.elem = c.node(t.Elem(), l.ElementType)
	if len(l.Keys) == 0 {
		if n.elem.op == opLeaf && isScalarKind(t.Elem()) {
			n.op = opSet
		}
		return
	}
	if n.elem.op != opStruct && n.elem.op != opLeaf {
		return
	}
	if n.keys = c.keys(t.Elem(), l); n.keys != nil {
		n.op = opKeyed
	}
}

// keys plans what identifies the items of a list; nil is more than a walk can tell.
func (c *compiler) keys(t reflect.Type, l *schema.List) (keys []keyNode) {
	atom, ok := c.schema.Resolve(l.ElementType)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !ok || atom.Map == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := jsonFields(t, nil)
	for _, name := range slices.Sorted(slices.Values(l.Keys)) {
		at := slices.IndexFunc(fields, func(f jsonField) bool { return f.name == name })
		sf, ok := atom.Map.FindField(name)
		if at < 0 || !ok {
			return nil
		}
		k := keyNode{name: name, index: fields[at].index, omit: fields[at].omit}
		if k.omit != nil && sf.Default != nil {
			var text string
			if text, k.isDef = sf.Default.(string); !k.isDef || !isPlain(text) {
				return nil
			}
			k.def = scalar{kind: str, s: text}
		}
		keys = append(keys, k)
	}
	return keys
}

func isScalarKind(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int32, reflect.Int64:
		return true
	}
	return false
}

// fields plans the fields of a struct, those of embedded structs among them.
func (c *compiler) fields(t reflect.Type, m *schema.Map) (list []fieldNode) {
	for _, f := range jsonFields(t, nil) {
		tr := m.ElementType
		if sf, ok := m.FindField(f.name); ok {
			tr = sf.Type
		}
		list = append(list, fieldNode{name: f.name, text: "f:" + f.name, index: f.index, omit: f.omit, node: c.node(f.t, tr)})
	}
	return list
}

// scalarTypes are types that write themselves as a scalar, and when two are equal.
var scalarTypes = map[reflect.Type]equal{
	reflect.TypeFor[metav1.Time]():        equalTime,
	reflect.TypeFor[metav1.MicroTime]():   equalMicroTime,
	reflect.TypeFor[metav1.Duration]():    func(a, b reflect.Value) bool { return a.Interface() == b.Interface() },
	reflect.TypeFor[resource.Quantity]():  equalQuantity,
	reflect.TypeFor[intstr.IntOrString](): equalIntOrString,
}

// zeroers are the types among them whose zero value is null.
var zeroers = map[reflect.Type]func(reflect.Value) bool{
	reflect.TypeFor[metav1.Time]():      func(v reflect.Value) bool { return at[metav1.Time](v).IsZero() },
	reflect.TypeFor[metav1.MicroTime](): func(v reflect.Value) bool { return at[metav1.MicroTime](v).IsZero() },
}
