package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/survey"
)

// resources lists what the server serves, each resource in its preferred version, with Group and Version filled in. To whom may
// not ask for that it lists Kubernetes' own.
func resources(ctx context.Context, c rest.Interface) (list []metav1.APIResource, err error) {
	groups, err := survey.Served(ctx, c)
	if apierrors.IsForbidden(err) {
		for _, k := range kinds.All() {
			i := k.Info()
			list = append(list, metav1.APIResource{Name: i.Plural, SingularName: i.Singular, Kind: i.GVK.Kind, Group: i.GVK.Group,
				Version: i.GVK.Version, ShortNames: i.Short, Verbs: i.Verbs, Namespaced: i.Namespaced})
		}
		return list, nil
	}
	for i := range groups {
		list = append(list, preferred(&groups[i])...)
	}
	return list, err
}

// preferred are the resources of a group: versions come in the order of preference, and the first that has one counts.
func preferred(g *apidiscoveryv2.APIGroupDiscovery) (list []metav1.APIResource) {
	seen := map[string]bool{}
	for _, v := range g.Versions {
		for _, r := range v.Resources {
			if seen[r.Resource] || r.ResponseKind == nil {
				continue
			}
			seen[r.Resource] = true
			list = append(list, metav1.APIResource{Name: r.Resource, SingularName: r.SingularResource, Kind: r.ResponseKind.Kind,
				Group: g.Name, Version: v.Version, ShortNames: r.ShortNames, Verbs: r.Verbs, Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace})
		}
	}
	return list
}

func objectPath(r *metav1.APIResource, ns, name string) string {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		path = "/api/" + r.Version
	}
	if r.Namespaced {
		path += "/namespaces/" + ns
	}
	return path + "/" + r.Name + "/" + name
}

// Missing is an error that says so when an object is not there, or not for the caller to see. Of what can't be asked it says nothing.
func (a *Asker) Missing(ctx context.Context, r *metav1.APIResource, ns, name string) error {
	switch err := a.Get(ctx, objectPath(r, ns, name), &metav1.PartialObjectMetadata{}); {
	case apierrors.IsForbidden(err):
		return err
	case !apierrors.IsNotFound(err):
		return nil
	}
	where := ""
	if r.Namespaced {
		where = " in namespace " + ns
	}
	return fmt.Errorf("there is no %s %q%s", strings.ToLower(r.Kind), name, where)
}

// namespaces is the resource of namespaces.
var namespaces = metav1.APIResource{Name: "namespaces", Kind: "Namespace", Version: "v1"}

// Unseen is an error when the namespace that was asked for is not there, or not for the caller to see.
func (a *Asker) Unseen(ctx context.Context, ns string) error {
	if ns == "" {
		return nil
	}
	return a.Missing(ctx, &namespaces, "", ns)
}

// Nowhere is an error when the namespace that was asked for is not there: what is true of all in it would say nothing.
func (a *Asker) Nowhere(ctx context.Context, ns string) error {
	if err := a.Unseen(ctx, ns); !apierrors.IsForbidden(err) {
		return err
	}
	return nil
}

// Resolve finds the resource that a person means by a word: deploy, pods, CronTab, crontabs.example.com. Of several it is the one that
// kubectl takes.
func (a *Asker) Resolve(ctx context.Context, word string) (*metav1.APIResource, error) {
	list, err := a.meant(ctx, word)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// meant are the resources that a word may mean, the one that kubectl takes first: groups have kinds of the same names.
func (a *Asker) meant(ctx context.Context, word string) ([]*metav1.APIResource, error) {
	list, err := resources(ctx, a.Raw)
	if err != nil {
		return nil, err
	}
	name, group, _ := strings.Cut(strings.ToLower(word), ".")
	var exact, near [2][]*metav1.APIResource // of the groups without a dot, which people mean when they name none, and of others
	for i := range list {
		r := &list[i]
		if name != r.Name && name != r.SingularName && name != strings.ToLower(r.Kind) && !slices.Contains(r.ShortNames, name) {
			continue
		}
		at := min(strings.Count(r.Group, "."), 1)
		switch {
		case group == "" || r.Group == group || r.Version+"."+r.Group == group:
			exact[at] = append(exact[at], r)
		case strings.HasPrefix(r.Group, group): // kubectl takes the beginning of a group as well
			near[at] = append(near[at], r)
		}
	}
	found := append(exact[0], exact[1]...)
	if len(found) == 0 {
		found = append(near[0], near[1]...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the server has no resource %q; kubectl api-resources lists them", word)
	}
	return found, nil
}
