package apiservice

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/webhook"
)

// The label of APIServices that a server keeps itself, and its values: those of built-in groups are made when a server
// starts and then left to users; those of definitions follow these.
const (
	managed    = "kube-aggregator.kubernetes.io/automanaged"
	onStart    = "onstart"
	continuous = "true"
)

// groupPriority orders the built-in groups, as upstream's server has them. apiregistration.k8s.io has no APIService.
var groupPriority = map[string]int32{"": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
	"authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200,
	"policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
	"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
	"discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100, "internal.apiserver.k8s.io": 16000,
	"storagemigration.k8s.io": 15800}

// oddVersions are the priorities within a group that do not follow from the version's maturity.
var oddVersions = map[schema.GroupVersion]int32{{Version: "v1"}: 1, {Group: "autoscaling", Version: "v2"}: 30,
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: 21, {Group: "resource.k8s.io", Version: "v1"}: 21}

func versionPriority(gv schema.GroupVersion) int32 {
	if p, ok := oddVersions[gv]; ok {
		return p
	}
	switch {
	case strings.Contains(gv.Version, "alpha"):
		return 1
	case strings.Contains(gv.Version, "beta"):
		return 9
	}
	return 15
}

// builtin lists the group versions that a server comes with and tells of, by the names of their APIServices.
func builtin(set *resource.Set) map[string]schema.GroupVersion {
	list := map[string]schema.GroupVersion{}
	for _, k := range set.All() {
		for _, gvk := range set.Served(k) {
			if groupPriority[gvk.Group] > 0 && !k.Info().Custom {
				list[nameOf(gvk.GroupVersion())] = gvk.GroupVersion()
			}
		}
	}
	return list
}

func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// wanted is the APIService of a group version that is served here.
func wanted(gv schema.GroupVersion, custom bool) *apiregistrationv1.APIService {
	svc := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: nameOf(gv), Labels: map[string]string{managed: onStart}},
		Spec: apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: groupPriority[gv.Group],
			VersionPriority: versionPriority(gv)}}
	if custom {
		svc.Labels[managed] = continuous
		svc.Spec.GroupPriorityMinimum, svc.Spec.VersionPriority = 1000, 100
	}
	return svc
}

// A decision is the action for an APIService that exists.
type decision struct {
	delete bool
	spec   *apiregistrationv1.APIServiceSpec
}

// plan is pure. own: the group version is served here; fresh: now is the time to bring it into order; custom: it is so by
// a definition. What carries no label of ours is the users'.
func plan(svc *apiregistrationv1.APIService, gv schema.GroupVersion, own, fresh, custom bool) decision {
	if svc.Labels[managed] == "" || svc.DeletionTimestamp != nil {
		return decision{}
	}
	if !own {
		return decision{delete: true}
	}
	if want := wanted(gv, custom); fresh && !equality.Semantic.DeepEqual(want.Spec, svc.Spec) {
		return decision{spec: &want.Spec}
	}
	return decision{}
}

func condition(good bool, reason, message string) apiregistrationv1.APIServiceCondition {
	c := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse,
		Reason: reason, Message: message}
	if good {
		c.Status = apiregistrationv1.ConditionTrue
	}
	return c
}

// steady is the text of an error without the port from which a connection went out: that is another each time, so that the condition
// would always be news, and its write would wake the loop at once.
func steady(err error) string {
	text := err.Error()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return text
}

// obstacle is pure: what keeps requests from reaching the server, as far as the cluster's own objects tell; nil for nothing.
func obstacle(svc *apiregistrationv1.APIService, service *corev1.Service,
	behind []*discoveryv1.EndpointSlice) *apiregistrationv1.APIServiceCondition {
	ref, port := svc.Spec.Service, int32(443)
	if ref.Port != nil {
		port = *ref.Port
	}
	refuse := func(reason, format string, args ...any) *apiregistrationv1.APIServiceCondition {
		c := condition(false, reason, fmt.Sprintf(format, args...))
		return &c
	}
	if service == nil {
		return refuse("ServiceNotFound", "service/%s in %q is not present", ref.Name, ref.Namespace)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 {
		return refuse("ServicePortError", "service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, port)
	}
	if len(behind) == 0 {
		return refuse("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace)
	}
	name := service.Spec.Ports[at].Name
	for _, s := range behind {
		if hosts, _ := webhook.Ready(s, name); len(hosts) > 0 {
			return nil
		}
	}
	return refuse("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace, name)
}

// set sets a condition. Its time changes with its status only.
func set(st *apiregistrationv1.APIServiceStatus, c apiregistrationv1.APIServiceCondition, now metav1.Time) {
	c.LastTransitionTime = now
	for i, old := range st.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		st.Conditions[i] = c
		return
	}
	st.Conditions = append(st.Conditions, c)
}
