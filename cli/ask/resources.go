package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// aggregated asks for everything that a server serves in two answers (KEP-3352). client-go's discovery client does it too,
// and would add the types of all versions that ever were: 10 MB.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// resources lists what the server serves, each resource in its preferred version, with Group and Version filled in.
func resources(ctx context.Context, c rest.Interface) (list []metav1.APIResource, err error) {
	for _, path := range []string{"/api", "/apis"} {
		data, err := c.Get().AbsPath(path).SetHeader("Accept", aggregated).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask what the server serves: %w", err)
		}
		var groups apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(data, &groups); err != nil {
			return nil, fmt.Errorf("read what the server serves: %w", err)
		}
		for i := range groups.Items {
			list = append(list, preferred(&groups.Items[i])...)
		}
	}
	return list, nil
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

// Resolve finds the resource that a person means by a word: deploy, pods, CronTab, crontabs.example.com.
func (a *Asker) Resolve(ctx context.Context, word string) (*metav1.APIResource, error) {
	list, err := resources(ctx, a.Raw)
	if err != nil {
		return nil, err
	}
	low := strings.ToLower(word)
	var best *metav1.APIResource
	for i := range list {
		r := &list[i]
		if low != r.Name && low != r.SingularName && low != strings.ToLower(r.Kind) && low != r.Name+"."+r.Group &&
			!slices.Contains(r.ShortNames, low) {
			continue
		}
		if best == nil || usual(r.Group) && !usual(best.Group) {
			best = r
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, fmt.Errorf("the server has no resource %q; kubectl api-resources lists them", word)
}

// usual tells the groups whose kinds people mean when they name no group: others have kinds of the same names.
func usual(group string) bool { return group == "" || !strings.Contains(group, ".") }
