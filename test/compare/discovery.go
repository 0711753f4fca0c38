package main

import (
	"context"
	"slices"
	"strings"
)

// A place holds the objects of a kind.
type place struct {
	gvk        gvk
	root       string // /api/v1, /apis/GROUP/VERSION
	plural     string
	namespaced bool
	verbs      []string
	subs       []sub
}

type sub struct {
	name  string
	kind  gvk
	verbs []string
}

const discoveryType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

type discovered struct {
	Items []struct {
		Metadata struct{ Name string }
		Versions []struct {
			Version   string
			Resources []struct {
				Resource     string
				Scope        string
				Verbs        []string
				ResponseKind gvk
				Subresources []struct {
					Subresource  string
					Verbs        []string
					ResponseKind gvk
				}
			}
		}
	}
}

// places reads what a server has.
func places(ctx context.Context, s *server) ([]place, error) {
	var all []place
	for _, root := range []string{"/api", "/apis"} {
		var got discovered
		if err := s.get(ctx, root, discoveryType, &got); err != nil {
			return nil, err
		}
		for _, g := range got.Items {
			for _, v := range g.Versions {
				at := root + "/" + strings.TrimPrefix(g.Metadata.Name+"/"+v.Version, "/")
				for _, r := range v.Resources {
					p := place{gvk: r.ResponseKind, root: at, plural: r.Resource, namespaced: r.Scope == "Namespaced", verbs: r.Verbs}
					p.gvk.Group, p.gvk.Version = g.Metadata.Name, v.Version
					for _, u := range r.Subresources {
						if u.ResponseKind.Group == "" && u.ResponseKind.Version == "" {
							u.ResponseKind.Group, u.ResponseKind.Version = g.Metadata.Name, v.Version
						}
						p.subs = append(p.subs, sub{u.Subresource, u.ResponseKind, u.Verbs})
					}
					all = append(all, p)
				}
			}
		}
	}
	return all, nil
}

// in is the path of the collection.
func (p place) in(namespace string) string {
	if !p.namespaced {
		return p.root + "/" + p.plural
	}
	if namespace == "" {
		namespace = "compare"
	}
	return p.root + "/namespaces/" + namespace + "/" + p.plural
}

func (p place) can(verb string) bool { return slices.Contains(p.verbs, verb) }

// placeOf finds where an object belongs.
func placeOf(all []place, obj map[string]any) (place, bool) {
	i := slices.IndexFunc(all, func(p place) bool {
		return p.gvk.Kind == word(obj, "kind") && strings.TrimPrefix(p.gvk.Group+"/"+p.gvk.Version, "/") == word(obj, "apiVersion")
	})
	if i < 0 {
		return place{}, false
	}
	return all[i], true
}
