package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// The v2 document describes everything, and changes with every definition. It is kept in parts, one for each version of a custom kind
// and one for all that is built in: of a new document only those parts are made that the one before did not have.

// A whole is a v2 document in one form. It does not change.
type whole struct {
	etag string
	text [][]byte // the document
	own  *part    // of what is built in
	rest map[schema.GroupVersionKind]*part
}

// A part describes one kind in the document.
type part struct {
	sum   [sha512.Size256]byte // of what it was made from
	paths []byte
	defs  []definition
	needs []string // names of schemas in the library
}

// A definition is a schema as the document has it.
type definition struct {
	name string
	text []byte
}

// V2Hash returns the hash of the v2 document. It does not make the document.
func (d *Docs) V2Hash() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look().etag
}

// V2JSON returns the v2 document of everything as JSON, in parts that must not be changed, and its hash.
func (d *Docs) V2JSON() (doc [][]byte, etag string, err error) { return d.everything(formJSON) }

// V2Proto is V2JSON in the protobuf form, application/com.github.proto-openapi.spec.v2@v1.0+protobuf.
func (d *Docs) V2Proto() (doc [][]byte, etag string, err error) { return d.everything(formProto) }

func (d *Docs) everything(f form) ([][]byte, string, error) {
	if w := d.still(f.name); w != nil {
		return w.text, w.etag, nil
	}
	d.v2.Lock()
	defer d.v2.Unlock()
	if w := d.still(f.name); w != nil { // somebody else has made it meanwhile
		return w.text, w.etag, nil
	}
	m, err := d.wholeMaker(f)
	if err != nil {
		return nil, "", err
	}
	w, err := m.make()
	if err != nil {
		return nil, "", fmt.Errorf("make the OpenAPI document v2: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.whole == nil {
		d.whole = map[string]*whole{}
	}
	d.whole[f.name] = w
	d.wakeWhole(w)
	return w.text, w.etag, nil
}

// idleLarge bounds how long a large v2 document stays after the last request for it.
const idleLarge = time.Minute

// wakeWhole puts off that v2 documents are forgotten. d.mu must be held.
func (d *Docs) wakeWhole(w *whole) {
	after := idle
	if sizeOf(w.text) > keep {
		after = idleLarge
	}
	if d.forgetWhole != nil {
		d.forgetWhole.Stop()
	}
	d.forgetWhole = time.AfterFunc(after, d.dropWhole)
}

func sizeOf(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

func (d *Docs) dropWhole() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole = nil
}

// still returns the document that was made last, if it is true.
func (d *Docs) still(name string) *whole {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.look()
	if w := d.whole[name]; w != nil && w.etag == g.etag {
		d.wakeWhole(w)
		return w
	}
	return nil
}

// A wholeMaker makes a v2 document from the kinds at one moment.
type wholeMaker struct {
	form
	builder
	groups groups
	marks  map[schema.GroupVersionKind]kindMark
	before *whole // parts that are still true are taken from it
}

func (d *Docs) wholeMaker(f form) (*wholeMaker, error) {
	d.mu.Lock()
	m := &wholeMaker{form: f, groups: *d.look(), marks: d.marks, before: d.whole[f.name], builder: builder{on: d.set.Features(), set: d.set}}
	d.mu.Unlock()
	if m.before == nil {
		m.before = &whole{own: &part{}}
	}
	var err error
	m.lib, err = openEdition(m.on)
	return m, err
}

func (m *wholeMaker) make() (*whole, error) {
	w := &whole{etag: m.groups.etag, rest: map[schema.GroupVersionKind]*part{}}
	needs := map[string]bool{}
	var parts []*part
	for _, gv := range coldsort.Sorted(maps.Keys(m.groups.kinds), compareGV) {
		for _, k := range m.groups.kinds[gv] {
			if !k.Info().Custom {
				continue
			}
			p, err := m.custom(gv, k)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
			w.rest[gv.WithKind(kindIn(k.Info(), gv))] = p
			for _, name := range p.needs {
				needs[name] = true
			}
		}
	}
	var err error
	if w.own, err = m.builtIn(slices.Sorted(maps.Keys(needs))); err != nil {
		return nil, err
	}
	w.text, err = m.join(append([]*part{w.own}, parts...))
	return w, err
}

// custom makes the part of a custom kind in one version, or takes it from the document before.
func (m *wholeMaker) custom(gv schema.GroupVersion, k resource.Kind) (*part, error) {
	i := k.Info()
	gvk := gv.WithKind(kindIn(i, gv))
	mark := m.marks[gvk]
	if p := m.before.rest[gvk]; p != nil && p.sum == mark.sum {
		return p, nil
	}
	group, tag := friendly(gv)
	in := &maker{info: i, gvk: gvk, model: m.model, prefix: "/" + GroupPath(gv), group: group, tag: tag}
	list, schema := listSchema(i, gvk)
	p := &part{sum: mark.sum}
	if err := m.fill(p, in.make(), map[string]object{customName(gvk): mark.told.object(gvk), list: schema}); err != nil {
		return nil, fmt.Errorf("describe %s: %w", gvk, err)
	}
	return p, nil
}

// builtIn makes the part of all that is built in, with the schemas that custom kinds need of it.
func (m *wholeMaker) builtIn(needs []string) (*part, error) {
	sum := sha512.New512_256()
	fmt.Fprintln(sum, needs)
	var routes []route
	for _, gv := range coldsort.Sorted(maps.Keys(m.groups.kinds), compareGV) {
		kinds := m.groups.kinds[gv]
		own := slices.DeleteFunc(slices.Clone(kinds), func(k resource.Kind) bool { return k.Info().Custom })
		for _, k := range own {
			mark := m.marks[gv.WithKind(kindIn(k.Info(), gv))].sum
			sum.Write(mark[:])
		}
		if len(own) == 0 {
			continue
		}
		list := m.routes(gv, own)
		if len(own) < len(kinds) {
			list = list[1:] // a group version with custom kinds does not list them in a page of its own
			fmt.Fprintln(sum, "custom kinds in", gv)
		}
		routes = append(routes, list...)
	}
	p := &part{}
	sum.Sum(p.sum[:0])
	if p.sum == m.before.own.sum {
		return m.before.own, nil
	}
	for _, path := range slices.Sorted(maps.Keys(m.groups.pages)) {
		routes = append(routes, m.groups.pages[path])
	}
	texts := m.used(routes)
	closure(m.find, texts, needs...)
	defs := map[string]object{}
	for name, raw := range texts {
		if old, ok := m.lib.v2(name); ok {
			raw = old
		}
		var s object
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("read the schema %s: %w", name, err)
		}
		defs[name] = s
	}
	return p, m.fill(p, routes, defs)
}

// fill writes the routes and schemas of a part.
func (m *wholeMaker) fill(p *part, routes []route, defs map[string]object) (err error) {
	paths := object{}
	for i := range routes {
		paths[routes[i].path] = routes[i].v2()
		for _, o := range routes[i].ops {
			p.needs = append(p.needs, o.out, o.body)
		}
	}
	if len(routes) > 0 {
		p.needs = append(p.needs, eventName) // a list may be a watch
	}
	if p.paths, err = m.inner("Paths", paths); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		old := oldRoot(defs[name])
		raw, err := m.inner("Definitions", object{name: old})
		if err != nil {
			return err
		}
		p.defs = append(p.defs, definition{name, raw})
		p.needs = append(p.needs, referred(old)...)
	}
	slices.Sort(p.needs)
	p.needs = slices.Clone(slices.DeleteFunc(slices.Compact(p.needs), func(name string) bool {
		_, known := m.lib.v3(name)
		return !known
	}))
	return nil
}

// referred returns the names in the references of a schema in the old form.
func referred(v any) (list []string) {
	switch v := v.(type) {
	case object:
		if to, ok := v["$ref"].(string); ok {
			list = append(list, strings.TrimPrefix(to, oldPrefix))
		}
		for _, inner := range v {
			list = append(list, referred(inner)...)
		}
	case []any:
		for _, inner := range v {
			list = append(list, referred(inner)...)
		}
	}
	return list
}

// join puts the parts together. Of two definitions with one name the first counts.
func (m *wholeMaker) join(parts []*part) ([][]byte, error) {
	var paths, defs [][]byte
	seen := map[string]bool{}
	for _, p := range parts {
		if len(p.paths) > 0 {
			paths = append(paths, p.paths)
		}
		for _, s := range p.defs {
			if !seen[s.name] {
				defs = append(defs, s.text)
			}
			seen[s.name] = true
		}
	}
	return m.frame(m.head(), paths, defs)
}
