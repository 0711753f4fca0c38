package openapi

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// groups holds the kinds of the set, at the last look, by group version.
type groups struct {
	all   []resource.Kind
	kinds map[schema.GroupVersion][]resource.Kind
	etags map[schema.GroupVersion]string
	pages map[string]route // by their path in the index
	etag  string           // of everything
}

// kindMark identifies the description of one kind in one version.
type kindMark struct {
	kind resource.Kind // as the set has it
	told *told
	sum  [sha512.Size256]byte
}

// look returns the groups; d.mu must be held. A set that changed is another slice.
func (d *Docs) look() *groups {
	all := d.set.All()
	if d.groups.kinds != nil && len(all) == len(d.groups.all) && (len(all) == 0 || &all[0] == &d.groups.all[0]) {
		return &d.groups
	}
	g := groups{all: all, kinds: map[schema.GroupVersion][]resource.Kind{}, etags: map[schema.GroupVersion]string{}, pages: rootPages()}
	marks := make(map[schema.GroupVersionKind]kindMark, len(all))
	for _, k := range all {
		i := k.Info()
		for _, gvk := range d.set.Served(k) {
			if in, ok := resource.In(k, gvk); ok {
				g.kinds[gvk.GroupVersion()] = append(g.kinds[gvk.GroupVersion()], in)
				marks[gvk] = d.mark(k, in.Info(), gvk)
			}
			if path := "apis/" + gvk.Group; gvk.Group != "" && !i.Custom && g.pages[path].path == "" {
				g.pages[path] = groupPage(gvk.Group)
			}
		}
	}
	d.marks = marks
	sum := sha512.New()
	for _, gv := range coldsort.Sorted(maps.Keys(g.kinds), compareGV) {
		g.etags[gv] = d.fingerprint(gv, g.kinds[gv])
		sum.Write([]byte(g.etags[gv]))
	}
	g.etag = strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
	d.groups = g
	return &d.groups
}

func compareGV(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }

// mark hashes a kind. It is quicker to have than the description, and made once.
func (d *Docs) mark(k resource.Kind, i *resource.Info, gvk schema.GroupVersionKind) kindMark {
	t := d.custom[gvk]
	if m, ok := d.marks[gvk]; ok && m.kind == k && m.told == t {
		return m
	}
	text := ""
	if t != nil {
		text = t.mark
	}
	of := fmt.Sprintln(i.GVK, i.Plural, i.ListKind, i.Namespaced, i.Verbs, i.Subs, i.Custom, text)
	return kindMark{kind: k, told: t, sum: sha512.Sum512_256([]byte(of))}
}

// edited counts the ways in which documents were made, so that what clients keep of an older one is not taken for the present one.
const edited = 2

// fingerprint hashes the marks of all kinds in a group version.
func (d *Docs) fingerprint(gv schema.GroupVersion, kinds []resource.Kind) string {
	sum := sha512.New()
	fmt.Fprintln(sum, edited, len(newest), d.set.Features(), gv)
	for _, k := range kinds {
		m := d.marks[gv.WithKind(kindIn(k.Info(), gv))].sum
		sum.Write(m[:])
	}
	return strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
}
