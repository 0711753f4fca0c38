// Package discovery serves the documents by which clients learn what there is: API groups and resources, legacy and
// aggregated, and OpenAPI v2 and v3.
package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"weak"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/resource"
)

// groupPriority orders the built-in groups in discovery; clients resolve ambiguous names in this order.
var groupPriority = map[string]int{"apiregistration.k8s.io": 20000, "apps": 17800, "events.k8s.io": 17750,
	"authentication.k8s.io": 17700, "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400,
	"certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100, "rbac.authorization.k8s.io": 17000,
	"storage.k8s.io": 16800, "admissionregistration.k8s.io": 16700, "apiextensions.k8s.io": 16699,
	"scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300, "discovery.k8s.io": 16200,
	"resource.k8s.io": 16150, "flowcontrol.apiserver.k8s.io": 16100, "internal.apiserver.k8s.io": 16000,
	"storagemigration.k8s.io": 15800}

// customPriority is that of groups that users define.
const customPriority = 1000

// closingVerbs are the verbs in discovery of a kind whose definition is under deletion.
var closingVerbs = []string{"delete", "deletecollection", "get", "list", "watch"}

// A Group is an API group as discovery lists it.
type Group struct {
	Name     string
	Versions []Version // preferred first
	Priority int       // greater comes first
}

// A Version is one version of a group and its resources.
type Version struct {
	Name      string
	Stale     bool // the list of resources may be outdated: its server does not answer
	Resources []metav1.APIResource

	custom bool // by definitions: the aggregated document then names the group of each type
}

// documents are made of the set's current content.
type documents struct {
	mu     sync.Mutex
	of     content
	groups []Group
	docs   map[string]tagged
}

// tagged is an encoded document with its entity tag.
type tagged struct {
	body []byte
	tag  string
}

// list returns the groups, the legacy one (named "") first, then by priority.
func (d *documents) list(set *resource.Set) []Group {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := set.All()
	if of := contentOf(all); d.groups == nil || d.of != of {
		d.of, d.groups, d.docs = of, groupsOf(set, all), map[string]tagged{}
	}
	return d.groups
}

func (d *documents) get(key string) (tagged, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, ok := d.docs[key]
	return doc, ok
}

// put keeps a document, unless the content has changed since the groups it tells were read.
func (d *documents) put(key string, groups []Group, doc tagged) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(groups) == len(d.groups) && (len(groups) == 0 || &groups[0] == &d.groups[0]) {
		d.docs[key] = doc
	}
}

// content identifies the kinds of a set at a moment, which replaces its slice when it changes. It keeps none of them: until somebody asks
// for discovery again, kinds that went would stay with their definitions.
type content = weak.Pointer[resource.Kind]

func contentOf(all []resource.Kind) (c content) {
	if len(all) > 0 {
		c = weak.Make(&all[0])
	}
	return c
}

func builtin(set *resource.Set, group string) bool {
	for _, k := range set.All() {
		if !k.Info().Custom && slices.ContainsFunc(set.Served(k), func(gvk schema.GroupVersionKind) bool { return gvk.Group == group }) {
			return true
		}
	}
	return false
}

func groupsOf(set *resource.Set, all []resource.Kind) []Group {
	byGV := map[schema.GroupVersion][]metav1.APIResource{}
	custom := map[string]bool{}
	for _, k := range all {
		i := k.Info()
		for _, gvk := range set.Served(k) {
			in, ok := resource.In(k, gvk)
			if !ok {
				continue
			}
			gv := gvk.GroupVersion()
			list := resourcesOf(in.Info(), gvk, set.Subs(in.Info(), gv))
			if c, ok := in.(interface{ Closing() bool }); ok && c.Closing() {
				list[0].Verbs = closingVerbs
			}
			byGV[gv] = append(byGV[gv], list...)
			if _, known := custom[gv.Group]; !known || !i.Custom {
				custom[gv.Group] = i.Custom
			}
		}
	}
	byName := map[string]*Group{}
	for gv, list := range byGV {
		g := byName[gv.Group]
		if g == nil {
			g = &Group{Name: gv.Group, Priority: priorityOf(gv.Group, custom[gv.Group])}
			byName[gv.Group] = g
		}
		coldsort.StableFunc(list, func(a, b metav1.APIResource) int {
			if custom[gv.Group] { // below a resource the status comes before the scale
				a.Name, _, _ = strings.Cut(a.Name, "/")
				b.Name, _, _ = strings.Cut(b.Name, "/")
			}
			return strings.Compare(a.Name, b.Name)
		})
		g.Versions = append(g.Versions, Version{Name: gv.Version, Resources: list, custom: custom[gv.Group]})
	}
	return ordered(byName)
}

func ordered(byName map[string]*Group) []Group {
	groups := make([]Group, 0, len(byName))
	for _, g := range byName {
		coldsort.Func(g.Versions, func(a, b Version) int {
			return version.CompareKubeAwareVersionStrings(b.Name, a.Name)
		})
		groups = append(groups, *g)
	}
	sortGroups(groups)
	return groups
}

func sortGroups(groups []Group) {
	coldsort.Func(groups, func(a, b Group) int {
		if c := cmp.Compare(b.Priority, a.Priority); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
}

func priorityOf(group string, custom bool) int {
	switch p, known := groupPriority[group]; {
	case group == "":
		return 1 << 20
	case known:
		return p
	case custom:
		return customPriority
	}
	return 15000
}

// resourcesOf are the entries of a kind in the list of one of its versions.
func resourcesOf(i *resource.Info, gvk schema.GroupVersionKind, subs []resource.SubInfo) []metav1.APIResource {
	main := metav1.APIResource{Name: i.Plural, SingularName: i.Singular, Namespaced: i.Namespaced, Kind: gvk.Kind,
		Verbs: i.Verbs, ShortNames: i.Short, Categories: i.Categories}
	if !i.Virtual {
		main.StorageVersionHash = storageHash(hashed(i))
	}
	list := []metav1.APIResource{main}
	for _, sub := range subs {
		r := metav1.APIResource{Name: i.Plural + "/" + sub.Name, Namespaced: i.Namespaced, Kind: gvk.Kind, Verbs: sub.Verbs}
		if !sub.GVK.Empty() {
			r.Kind = sub.GVK.Kind
			if sub.GVK.GroupVersion() != i.GVK.GroupVersion() {
				r.Group, r.Version = sub.GVK.Group, sub.GVK.Version
			}
		}
		list = append(list, r)
	}
	return list
}

// hashed is the version that the hash is made of. Upstream tells that of definitions as if they were stored in their first version.
func hashed(i *resource.Info) schema.GroupVersionKind {
	if i.GVK.Group == "apiextensions.k8s.io" {
		return i.GVK.GroupKind().WithVersion("v1beta1")
	}
	return i.GVK
}

// storageHash identifies the stored version without naming it.
func storageHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// Groups are all groups: this server's and those of others.
func (h *Handler) Groups() []Group {
	own := h.docs.list(h.Kinds)
	if h.Others == nil {
		return own
	}
	more := h.Others.Groups()
	if len(more) == 0 {
		return own
	}
	all := slices.Clone(own)
	for _, g := range more {
		all = merged(all, g)
	}
	sortGroups(all)
	return all
}

// merged adds a group of another server. Where a group has versions here and there, a version is of the server that its
// APIService names: the other.
func merged(all []Group, g Group) []Group {
	at := slices.IndexFunc(all, func(o Group) bool { return o.Name == g.Name })
	if at < 0 {
		return append(all, g)
	}
	both := Group{Name: g.Name, Priority: max(g.Priority, all[at].Priority), Versions: g.Versions}
	for _, v := range all[at].Versions {
		if _, other := g.version(v.Name); !other {
			both.Versions = append(both.Versions, v)
		}
	}
	coldsort.StableFunc(both.Versions, func(a, b Version) int { return version.CompareKubeAwareVersionStrings(b.Name, a.Name) })
	all[at] = both
	return all
}

func (h *Handler) group(name string) (Group, bool) {
	for _, g := range h.Groups() {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

func (g *Group) version(name string) (Version, bool) {
	for _, v := range g.Versions {
		if v.Name == name {
			return v, true
		}
	}
	return Version{}, false
}

// apiVersions is the document of /api.
func (h *Handler) apiVersions(r *http.Request) *metav1.APIVersions {
	address := h.Address
	if address == "" {
		address = r.Host
	}
	return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: address}}}
}

// groupList is the document of /apis.
func (h *Handler) groupList() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, g := range h.Groups() {
		if g.Name != "" {
			list.Groups = append(list.Groups, *apiGroup(g, false))
		}
	}
	return list
}

func apiGroup(g Group, alone bool) *metav1.APIGroup {
	doc := &metav1.APIGroup{Name: g.Name}
	if alone {
		doc.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	}
	for _, v := range g.Versions {
		gv := schema.GroupVersion{Group: g.Name, Version: v.Name}
		doc.Versions = append(doc.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.Name})
	}
	doc.PreferredVersion = doc.Versions[0]
	return doc
}

func resourceList(gv schema.GroupVersion, v Version) *metav1.APIResourceList {
	doc := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: v.Resources}
	if gv.Group != "" {
		doc.APIVersion = "v1"
	}
	return doc
}

// aggregated is the document that tells all groups of /api or /apis at once.
func aggregated(groups []Group, legacy bool) *apidiscoveryv2.APIGroupDiscoveryList {
	list := &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList",
		APIVersion: apidiscoveryv2.SchemeGroupVersion.String()}, Items: []apidiscoveryv2.APIGroupDiscovery{}}
	for _, g := range groups {
		if (g.Name == "") != legacy {
			continue
		}
		item := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, v := range g.Versions {
			item.Versions = append(item.Versions, versionDiscovery(g.Name, v))
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func versionDiscovery(group string, v Version) apidiscoveryv2.APIVersionDiscovery {
	out := apidiscoveryv2.APIVersionDiscovery{Version: v.Name, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	if v.Stale {
		out.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	}
	at := map[string]int{}
	for _, r := range v.Resources {
		kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if v.custom && kind.Version == "" {
			kind.Group, kind.Version = group, v.Name
		}
		if name, sub, is := strings.Cut(r.Name, "/"); is {
			if i, ok := at[name]; ok {
				out.Resources[i].Subresources = append(out.Resources[i].Subresources,
					apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			}
			continue
		}
		at[r.Name] = len(out.Resources)
		scope := apidiscoveryv2.ScopeCluster
		if r.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		out.Resources = append(out.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: r.Name, ResponseKind: kind,
			Scope: scope, SingularResource: r.SingularName, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories})
	}
	return out
}
