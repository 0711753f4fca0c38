package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// builtIn are the kinds that rules look at, the largest first: they take longest.
func builtIn() []resource.Kind {
	return []resource.Kind{kinds.Pods, kinds.Events, kinds.ReplicaSets, kinds.EndpointSlices, kinds.CustomResourceDefinitions, kinds.Secrets, kinds.ConfigMaps,
		kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets, kinds.ReplicationControllers, kinds.Jobs, kinds.CronJobs, kinds.Nodes, kinds.Leases,
		kinds.Namespaces, kinds.Services, kinds.Ingresses, kinds.IngressClasses, kinds.PersistentVolumeClaims, kinds.PersistentVolumes,
		kinds.StorageClasses, kinds.VolumeAttachments, kinds.PodDisruptionBudgets, kinds.HorizontalPodAutoscalers, kinds.ResourceQuotas,
		kinds.ServiceAccounts, kinds.PriorityClasses, kinds.RuntimeClasses, kinds.CertificateSigningRequests, kinds.APIServices,
		kinds.ValidatingWebhookConfigurations, kinds.MutatingWebhookConfigurations, kinds.ValidatingAdmissionPolicies,
		kinds.ValidatingAdmissionPolicyBindings, kinds.ResourceClaims, kinds.ResourceClaimTemplates, kinds.DeviceClasses}
}

// aggregated asks for all that a server serves in one answer: servers do so since 1.30.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// computed are groups whose objects nobody stores.
var computed = []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io", "convergence.kloop.dev"}

// customKinds are the kinds that the server has and this program does not know, as its discovery tells: all who are logged in may read
// that, as few may the definitions. They are added to the set.
func customKinds(ctx context.Context, raw rest.Interface, set *resource.Set) (list []resource.Kind, err error) {
	data, err := raw.Get().AbsPath("/apis").SetHeader("Accept", aggregated).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what the server serves: %w", refusal(data, err))
	}
	var groups apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(data, &groups); err != nil {
		return nil, fmt.Errorf("read what the server serves: %w", err)
	}
	for i := range groups.Items {
		g := &groups.Items[i]
		if slices.Contains(computed, g.Name) || strings.HasSuffix(g.Name, ".metrics.k8s.io") || g.Name == "" {
			continue
		}
		for _, v := range g.Versions {
			for j := range v.Resources {
				r := &v.Resources[j]
				if _, known := set.GR(schema.GroupResource{Group: g.Name, Resource: r.Resource}); known || !slices.Contains(r.Verbs, "list") || r.ResponseKind == nil ||
					len(list) == maxCustom {
					continue
				}
				k := &resource.Def[*unstructured.Unstructured]{GVK: schema.GroupVersionKind{Group: g.Name, Version: v.Version, Kind: r.ResponseKind.Kind},
					Plural: r.Resource, Namespaced: r.Scope == apidiscoveryv2.ScopeNamespace, JSON: true}
				if set.Put(k) == nil {
					list = append(list, k)
				}
			}
		}
	}
	return list, nil
}
