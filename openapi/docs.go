package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/resource"
)

// Docs makes the documents of a set of kinds. It is safe for concurrent use.
type Docs struct {
	set *resource.Set

	mu     sync.Mutex                        // held briefly: nothing is made under it
	custom map[schema.GroupVersionKind]*told // the schemas of custom resources, v3
	marks  map[schema.GroupVersionKind]kindMark
	made   map[string]document
	size   int
	forget *time.Timer
	groups groups
	whole  map[string]*whole // v2 documents, by their form

	forgetWhole *time.Timer

	making sync.Mutex // a v3 document: one at a time; locked before mu
	v2     sync.Mutex // a v2 document, the same
}

// A document is a finished text and what it was made from.
type document struct {
	etag string
	data []byte
}

// keep bounds the documents that are remembered, in bytes. All of them together are twice as much.
const keep = 8 << 20

// idle is the time for which unused documents are kept.
const idle = 5 * time.Minute

// New returns the documents of the set, which may change later. It does no work.
func New(set *resource.Set) *Docs { return &Docs{set: set} }

// ErrNotServed says that no kind is served in a group version.
var ErrNotServed = fmt.Errorf("group version is not served")

// AddSchema tells the schema of a custom resource in one version, in v3 form; nil stands for any object. Types
// that are not told have no more than metadata.
func (d *Docs) AddSchema(gvk schema.GroupVersionKind, s *spec.Schema) error {
	doc, err := customSchema(gvk, s)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode the schema of %s: %w", gvk, err)
	}
	d.put(gvk, &told{mark: string(raw), tree: func() (object, error) { return doc, nil }})
	return nil
}

// AddSchemaLater is AddSchema with a schema that is made whenever a document needs it. The mark stands for its
// content: it changes when that does.
func (d *Docs) AddSchemaLater(gvk schema.GroupVersionKind, mark string, later func() (*spec.Schema, error)) {
	d.put(gvk, &told{mark: mark, tree: func() (object, error) {
		s, err := later()
		if err != nil {
			return nil, err
		}
		return customSchema(gvk, s)
	}})
}

// told is the schema of a custom resource.
type told struct {
	mark string                 // stands for the tree in fingerprints
	tree func() (object, error) // not to be changed
}

func (d *Docs) put(gvk schema.GroupVersionKind, t *told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.custom == nil {
		d.custom = map[schema.GroupVersionKind]*told{}
	}
	d.custom[gvk] = t
	d.groups = groups{}
}

// RemoveSchema forgets what AddSchema told.
func (d *Docs) RemoveSchema(gvk schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.custom, gvk)
	d.marks = maps.Clone(d.marks) // others may read the old one
	delete(d.marks, gvk)          // or it would hold the kind, and that its definition, until somebody asks for a document
	d.groups = groups{}
}

// GroupPath is the path of a group version, as it stands in the index: api/v1, apis/apps/v1.
func GroupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// groupVersion undoes GroupPath.
func groupVersion(path string) schema.GroupVersion {
	root, rest, _ := strings.Cut(path, "/")
	if root == "api" {
		return schema.GroupVersion{Version: rest}
	}
	group, version, _ := strings.Cut(rest, "/")
	return schema.GroupVersion{Group: group, Version: version}
}

// Index returns the hash of each v3 document by its path: "apis/apps/v1" is served as /openapi/v3/apis/apps/v1.
func (d *Docs) Index() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	index := map[string]string{}
	for gv, etag := range d.look().etags {
		index[GroupPath(gv)] = etag
	}
	for path := range d.look().pages {
		index[path] = d.pageMark(path)
	}
	return index
}

// V3 returns the v3 document at a path of the index as JSON, which must not be changed, and its hash.
func (d *Docs) V3(path string) (data []byte, etag string, err error) {
	return d.v3(path, "json", func(o object) ([]byte, error) { return json.Marshal(o) })
}

// V3Proto is V3 in the protobuf form, application/com.github.proto-openapi.spec.v3@v1.0+protobuf.
func (d *Docs) V3Proto(path string) (data []byte, etag string, err error) {
	return d.v3(path, "proto", func(o object) ([]byte, error) { return encode(o, v3Messages, "Document") })
}

func (d *Docs) v3(path, form string, write func(object) ([]byte, error)) ([]byte, string, error) {
	name := "v3/" + form + "/" + path
	if doc, ok, err := d.known(name, path); ok || err != nil {
		return doc.data, doc.etag, err
	}
	d.making.Lock()
	defer d.making.Unlock()
	doc, ok, err := d.known(name, path) // somebody else may have made it meanwhile
	if ok || err != nil {
		return doc.data, doc.etag, err
	}
	if doc, err = d.makeV3(path, write); err != nil {
		return nil, "", fmt.Errorf("make the OpenAPI document %s: %w", name, err)
	}
	d.remember(name, doc)
	return doc.data, doc.etag, nil
}

// known returns the document at a path of the index if it was made and is still true.
func (d *Docs) known(name, path string) (doc document, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	etag, err := d.etagOf(path)
	if err != nil {
		return doc, false, err
	}
	d.wake()
	doc, ok = d.made[name]
	return doc, ok && doc.etag == etag, nil
}

// etagOf is the hash of the document at a path of the index. d.mu must be held.
func (d *Docs) etagOf(path string) (string, error) {
	g := d.look()
	if _, is := g.pages[path]; is {
		return d.pageMark(path), nil
	}
	etag, ok := g.etags[groupVersion(path)]
	if !ok {
		return "", fmt.Errorf("OpenAPI of %s: %w", path, ErrNotServed)
	}
	return etag, nil
}

func (d *Docs) makeV3(path string, write func(object) ([]byte, error)) (doc document, err error) {
	gv := groupVersion(path)
	d.mu.Lock()
	doc.etag, err = d.etagOf(path)
	kinds := d.groups.kinds[gv]
	page, isPage := d.groups.pages[path]
	b := builder{custom: d.schemasOf(gv, kinds), on: d.set.Features(), set: d.set}
	d.mu.Unlock()
	if err != nil {
		return doc, err
	}
	if b.lib, err = openEdition(b.on); err != nil {
		return doc, err
	}
	if isPage {
		doc.data, err = write(b.pageDocument(page))
		return doc, err
	}
	b.defined = !slices.ContainsFunc(kinds, func(k resource.Kind) bool { return !k.Info().Custom })
	routes := b.routes(gv, kinds)
	doc.data, err = write(b.v3Document(routes, b.schemas(gv, routes)))
	return doc, err
}

// schemasOf returns the schemas of the custom resources in a group version. d.mu must be held.
func (d *Docs) schemasOf(gv schema.GroupVersion, kinds []resource.Kind) map[schema.GroupVersionKind]*told {
	custom := map[schema.GroupVersionKind]*told{}
	for _, k := range kinds {
		gvk := gv.WithKind(kindIn(k.Info(), gv))
		if t, ok := d.custom[gvk]; ok {
			custom[gvk] = t
		}
	}
	return custom
}

// remember keeps a document while it is asked for and there is room.
func (d *Docs) remember(name string, doc document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size += len(doc.data); d.made == nil || d.size > keep {
		d.made, d.size = map[string]document{}, len(doc.data)
	}
	d.made[name] = doc
}

// wake puts off that documents are forgotten. d.mu must be held.
func (d *Docs) wake() {
	if d.forget == nil {
		d.forget = time.AfterFunc(idle, d.drop)
		return
	}
	d.forget.Reset(idle)
}

// drop forgets v3 documents.
func (d *Docs) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made, d.size = nil, 0
}
