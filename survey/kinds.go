package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// builtIn are the kinds that rules look at, the largest first: they take longest.
func builtIn() []resource.Kind {
	return []resource.Kind{kinds.Pods, kinds.Events, kinds.ReplicaSets, kinds.EndpointSlices, kinds.CustomResourceDefinitions,
		kinds.Secrets, kinds.ConfigMaps,
		kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets, kinds.ReplicationControllers, kinds.Jobs, kinds.CronJobs, kinds.Nodes,
		kinds.Leases,
		kinds.Namespaces, kinds.Services, kinds.Ingresses, kinds.IngressClasses, kinds.PersistentVolumeClaims, kinds.PersistentVolumes,
		kinds.StorageClasses, kinds.VolumeAttachments, kinds.PodDisruptionBudgets, kinds.HorizontalPodAutoscalers, kinds.ResourceQuotas,
		kinds.ServiceAccounts, kinds.PriorityClasses, kinds.RuntimeClasses, kinds.CertificateSigningRequests, kinds.APIServices,
		kinds.ValidatingWebhookConfigurations, kinds.MutatingWebhookConfigurations, kinds.ValidatingAdmissionPolicies,
		kinds.ValidatingAdmissionPolicyBindings, kinds.ClusterRoles, kinds.ClusterRoleBindings,
		kinds.ResourceClaims, kinds.ResourceClaimTemplates, kinds.DeviceClasses}
}

// aggregated asks for all that a server serves in one answer: servers do so since 1.30.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// computed are groups whose objects nobody stores.
var computed = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io", "convergence.kloop.dev"}

// A catalog has what a server serves beside the core group, by its own word.
type catalog struct {
	groups apidiscoveryv2.APIGroupDiscoveryList
	unread []string // groups of which the server did not tell
}

// catalogOf asks a server what it serves beside the core group.
func catalogOf(ctx context.Context, raw rest.Interface) (*catalog, error) {
	c := &catalog{}
	return c, c.add(ctx, raw, "/apis")
}

// Served asks a server for all that it serves, the core group first; of groups whose server does not answer it has nothing.
func Served(ctx context.Context, raw rest.Interface) ([]apidiscoveryv2.APIGroupDiscovery, error) {
	c := &catalog{}
	for _, path := range []string{"/api", "/apis"} {
		if err := c.add(ctx, raw, path); err != nil {
			return nil, err
		}
	}
	return c.groups.Items, nil
}

// add asks for what is served below a path: all who are logged in may read that, as few may the definitions. A server that does not
// tell all at once, as behind some proxies, is asked group by group.
func (c *catalog) add(ctx context.Context, raw rest.Interface, path string) error {
	data, err := raw.Get().AbsPath(path).SetHeader("Accept", aggregated+",application/json").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask what the server serves: %w", client.Refusal(data, err))
	}
	var one struct {
		Kind     string            `json:"kind"`
		Groups   []metav1.APIGroup `json:"groups"`
		Versions []string          `json:"versions"` // of the core group
	}
	var all apidiscoveryv2.APIGroupDiscoveryList
	if err = json.Unmarshal(data, &one); err == nil {
		switch one.Kind {
		case "APIVersions":
			core := metav1.APIGroup{}
			for _, v := range one.Versions {
				core.Versions = append(core.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v, Version: v})
			}
			err = c.each(ctx, raw, path, []metav1.APIGroup{core})
		case "APIGroupList":
			err = c.each(ctx, raw, path, one.Groups)
		default:
			err = json.Unmarshal(data, &all)
		}
	}
	if err != nil {
		return fmt.Errorf("read what the server serves: %w", err)
	}
	for i := range all.Items {
		for _, v := range all.Items[i].Versions {
			if v.Freshness == apidiscoveryv2.DiscoveryFreshnessStale {
				c.unread = append(c.unread, all.Items[i].Name)
			}
		}
	}
	c.groups.Items = append(c.groups.Items, all.Items...)
	return nil
}

// each asks for every version of every group.
func (c *catalog) each(ctx context.Context, raw rest.Interface, path string, groups []metav1.APIGroup) error {
	for _, g := range groups[:min(len(groups), maxCustom)] {
		out := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
		for _, v := range g.Versions {
			var list metav1.APIResourceList
			data, err := raw.Get().AbsPath(path + "/" + v.GroupVersion).DoRaw(ctx)
			if err == nil {
				err = json.Unmarshal(data, &list)
			}
			if err != nil { // the server behind a group may be down, and the others are read all the same
				c.unread = append(c.unread, g.Name)
				continue
			}
			one := apidiscoveryv2.APIVersionDiscovery{Version: v.Version}
			for i := range list.APIResources {
				r := &list.APIResources[i]
				if strings.Contains(r.Name, "/") {
					continue
				}
				scope := apidiscoveryv2.ScopeCluster
				if r.Namespaced {
					scope = apidiscoveryv2.ScopeNamespace
				}
				one.Resources = append(one.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: r.Name, Verbs: r.Verbs, Scope: scope,
					SingularResource: r.SingularName, ShortNames: r.ShortNames,
					ResponseKind: &metav1.GroupVersionKind{Group: g.Name, Version: v.Version, Kind: r.Kind}})
			}
			out.Versions = append(out.Versions, one)
		}
		c.groups.Items = append(c.groups.Items, out)
	}
	return ctx.Err()
}

// versions are those in which the server has a kind.
func (c *catalog) versions(gr schema.GroupResource) (list []string) {
	for i := range c.groups.Items {
		for _, v := range c.groups.Items[i].Versions {
			has := func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource == gr.Resource }
			if c.groups.Items[i].Name == gr.Group && slices.ContainsFunc(v.Resources, has) {
				list = append(list, v.Version)
			}
		}
	}
	return list
}

// custom adds the kinds that the server has and this program does not know to the set.
func (c *catalog) custom(set *resource.Set) (list []resource.Kind) {
	for i := range c.groups.Items {
		g := &c.groups.Items[i]
		if slices.Contains(computed, g.Name) || strings.HasSuffix(g.Name, ".metrics.k8s.io") || g.Name == "" {
			continue
		}
		for _, v := range g.Versions {
			for j := range v.Resources {
				r := &v.Resources[j]
				_, known := set.GR(schema.GroupResource{Group: g.Name, Resource: r.Resource})
				if known || !slices.Contains(r.Verbs, "list") || r.ResponseKind == nil ||
					len(list) == maxCustom {
					continue
				}
				k := &resource.Def[*unstructured.Unstructured]{
					GVK:    schema.GroupVersionKind{Group: g.Name, Version: v.Version, Kind: r.ResponseKind.Kind},
					Plural: r.Resource, Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace, JSON: true}
				if set.Put(k) == nil {
					list = append(list, k)
				}
			}
		}
	}
	return list
}
