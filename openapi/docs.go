package openapi

import (
	"crypto/sha512"
	"encoding/hex"
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

	mu     sync.Mutex
	custom map[schema.GroupVersionKind]told // the schemas of custom resources, v3
	made   map[string]document
	size   int
	forget *time.Timer
	groups groups
}

// A document is a finished text and what it was made from.
type document struct {
	etag string
	data []byte
}

// keep bounds the documents that are remembered, in bytes. All of them together are twice as much.
const keep = 8 << 20

// idle is how long documents are remembered that nobody asks for.
const idle = 5 * time.Minute

// New returns the documents of the set, which may change later. It does no work.
func New(set *resource.Set) *Docs { return &Docs{set: set} }

// ErrNotServed says that no kind is served in a group version.
var ErrNotServed = fmt.Errorf("group version is not served")

// AddSchema tells the schema of a custom resource in one version, in v3 form; nil stands for any object. Types
// that are not told have no more than metadata.
func (d *Docs) AddSchema(gvk schema.GroupVersionKind, s *spec.Schema) error {
	raw, err := customSchema(gvk, s)
	if err != nil {
		return err
	}
	d.put(gvk, told{mark: string(raw), text: func() (json.RawMessage, error) { return raw, nil }})
	return nil
}

// AddSchemaLater is AddSchema with a schema that is made whenever a document needs it. The mark stands for its
// content: it changes when that does.
func (d *Docs) AddSchemaLater(gvk schema.GroupVersionKind, mark string, later func() (*spec.Schema, error)) {
	d.put(gvk, told{mark: mark, text: func() (json.RawMessage, error) {
		s, err := later()
		if err != nil {
			return nil, err
		}
		return customSchema(gvk, s)
	}})
}

// told is the schema of a custom resource.
type told struct {
	mark string // stands for the text in fingerprints
	text func() (json.RawMessage, error)
}

func (d *Docs) put(gvk schema.GroupVersionKind, t told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.custom == nil {
		d.custom = map[schema.GroupVersionKind]told{}
	}
	d.custom[gvk] = t
	d.groups = groups{}
}

// RemoveSchema forgets what AddSchema told.
func (d *Docs) RemoveSchema(gvk schema.GroupVersionKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.custom, gvk)
	d.groups = groups{}
}

// groups is what the set held when it was looked at last.
type groups struct {
	all   []resource.Kind
	kinds map[schema.GroupVersion][]resource.Kind
	etags map[schema.GroupVersion]string
	pages map[string]route // by their path in the index
	etag  string           // of everything
}

// look returns the groups; d.mu must be held. A set that changed is another slice.
func (d *Docs) look() *groups {
	all := d.set.All()
	if d.groups.kinds != nil && len(all) == len(d.groups.all) && (len(all) == 0 || &all[0] == &d.groups.all[0]) {
		return &d.groups
	}
	g := groups{all: all, kinds: map[schema.GroupVersion][]resource.Kind{}, etags: map[schema.GroupVersion]string{}, pages: rootPages()}
	for _, k := range all {
		i := k.Info()
		for _, gvk := range d.set.Served(k) {
			if in, ok := resource.In(k, gvk); ok {
				g.kinds[gvk.GroupVersion()] = append(g.kinds[gvk.GroupVersion()], in)
			}
			if path := "apis/" + gvk.Group; gvk.Group != "" && !i.Custom && g.pages[path].path == "" {
				g.pages[path] = groupPage(gvk.Group)
			}
		}
	}
	sum := sha512.New()
	for _, gv := range slices.SortedFunc(maps.Keys(g.kinds), compareGV) {
		g.etags[gv] = d.fingerprint(gv, g.kinds[gv])
		sum.Write([]byte(g.etags[gv]))
	}
	g.etag = strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
	d.groups = g
	return &d.groups
}

func compareGV(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }

// fingerprint is the hash of all that the document of a group version follows from, which is quicker to have
// than the document itself.
func (d *Docs) fingerprint(gv schema.GroupVersion, kinds []resource.Kind) string {
	sum := sha512.New()
	fmt.Fprintln(sum, len(packed), d.set.Features(), gv)
	for _, k := range kinds {
		i := k.Info()
		fmt.Fprintln(sum, i.GVK, i.Plural, i.ListKind, i.Namespaced, i.Verbs, i.Subs, i.Custom)
		gvk := gv.WithKind(i.GVK.Kind)
		fmt.Fprintf(sum, "%s\n", d.custom[gvk].mark)
	}
	return strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
}

// GroupPath is the path of a group version, as it stands in the index: api/v1, apis/apps/v1.
func GroupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// groupVersion is what GroupPath makes a path of.
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

// V2JSON returns the v2 document of everything as JSON, which must not be changed, and its hash.
func (d *Docs) V2JSON() (data []byte, etag string, err error) {
	return d.v2("json", func(o object) ([]byte, error) { return json.Marshal(o) })
}

// V2Proto is V2JSON in the protobuf form, application/com.github.proto-openapi.spec.v2@v1.0+protobuf.
func (d *Docs) V2Proto() (data []byte, etag string, err error) {
	return d.v2("proto", func(o object) ([]byte, error) { return encode(o, v2Messages, "Document") })
}

func (d *Docs) v3(path, form string, write func(object) ([]byte, error)) ([]byte, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.look()
	gv := groupVersion(path)
	etag, ok := g.etags[gv]
	page, isPage := g.pages[path]
	if isPage {
		etag = d.pageMark(path)
	} else if !ok {
		return nil, "", fmt.Errorf("OpenAPI of %s: %w", path, ErrNotServed)
	}
	return d.remember("v3/"+form+"/"+path, etag, func() ([]byte, error) {
		lib, err := openEdition(d.set.Features())
		if err != nil {
			return nil, err
		}
		b := builder{lib: lib, custom: d.custom, on: d.set.Features()}
		if isPage {
			return write(b.pageDocument(page))
		}
		routes := b.routes(gv, g.kinds[gv])
		return write(b.v3Document(routes, b.schemas(gv, routes)))
	})
}

func (d *Docs) v2(form string, write func(object) ([]byte, error)) ([]byte, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.look()
	return d.remember("v2/"+form, g.etag, func() ([]byte, error) {
		lib, err := openEdition(d.set.Features())
		if err != nil {
			return nil, err
		}
		b := builder{lib: lib, custom: d.custom, on: d.set.Features()}
		var routes []route
		for _, gv := range slices.SortedFunc(maps.Keys(g.kinds), compareGV) {
			routes = append(routes, b.routes(gv, g.kinds[gv])...)
		}
		for _, page := range g.pages {
			routes = append(routes, page)
		}
		doc, err := b.v2(routes)
		if err != nil {
			return nil, err
		}
		return write(doc)
	})
}

// remember returns the document of that name if it is still true, or makes it. d.mu must be held.
func (d *Docs) remember(name, etag string, make func() ([]byte, error)) ([]byte, string, error) {
	if d.forget == nil {
		d.forget = time.AfterFunc(idle, d.drop)
	} else {
		d.forget.Reset(idle)
	}
	if doc, ok := d.made[name]; ok && doc.etag == etag {
		return doc.data, etag, nil
	}
	data, err := make()
	if err != nil {
		return nil, "", fmt.Errorf("make the OpenAPI document %s: %w", name, err)
	}
	if d.size += len(data); d.made == nil || d.size > keep {
		d.made, d.size = map[string]document{}, len(data)
	}
	d.made[name] = document{etag, data}
	return data, etag, nil
}

// drop forgets all documents.
func (d *Docs) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made, d.size = nil, 0
}
