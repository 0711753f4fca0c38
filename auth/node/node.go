// Package node decides what node agents may do: what every agent needs, and of secrets, config maps, volumes,
// claims and tokens only what the pods on its node use.
//
// There is no graph to keep: the pods of a node are an index of every Reader, and what they use is written in
// them. A decision looks at the hundred or so pods of one node.
package node

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/kinds/certificates"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/dra"
	"github.com/kloop-dev/kloop/kinds/storage"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// An Authorizer decides for members of system:nodes and has no opinion on others. Safe for concurrent use.
type Authorizer struct {
	read    func() resource.Reader
	rules   []rbacv1.PolicyRule
	network []rbacv1.PolicyRule // go before what is subdivided
}

// networkRules allow what the proxy, the cluster DNS and the network of a node read. Unlike Kubernetes, where each has an identity of
// its own, they are one process with the agent and share its certificate. Routes and policies follow from the pods of all nodes.
func networkRules() []rbacv1.PolicyRule {
	list, get := []string{"list", "watch"}, []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{Verbs: list, APIGroups: []string{""}, Resources: []string{"namespaces", "nodes", "pods"}},
		{Verbs: list, APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}},
		{Verbs: list, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}},
		{Verbs: get, APIGroups: []string{"networking.k8s.io"}, Resources: []string{"servicecidrs"}}}
}

// New returns an authorizer; read gives the newest state.
func New(read func() resource.Reader) *Authorizer {
	return &Authorizer{read: read, rules: rbac.NodeRules(), network: networkRules()}
}

// Authorize implements auth.Authorizer. It never denies: a role may allow what it does not.
func (z *Authorizer) Authorize(_ context.Context, a *auth.Attributes) (auth.Decision, string, error) {
	if a.User == nil || !strings.HasPrefix(a.User.Name, "system:node:") || !a.User.In(auth.GroupNodes) {
		return auth.NoOpinion, "", nil
	}
	node, ok := a.User.NodeName()
	if !ok {
		return auth.NoOpinion, fmt.Sprintf("unknown node for user %q", a.User.Name), nil
	}
	if allowed(z.network, a) {
		return auth.Allow, "", nil
	}
	if a.Resource != "" {
		if judge := subdivided[a.Group+"/"+a.Resource]; judge != nil {
			if why := judge(z.read(), node, a); why != "" {
				return auth.NoOpinion, why, nil
			}
			return auth.Allow, "", nil
		}
	}
	if allowed(z.rules, a) {
		return auth.Allow, "", nil
	}
	return auth.NoOpinion, "", nil
}

func allowed(rules []rbacv1.PolicyRule, a *auth.Attributes) bool {
	for i := range rules {
		if rbac.Allows(&rules[i], a) {
			return true
		}
	}
	return false
}

// A judge says why the agent of the node may not do what it asks for; "" means that it may.
type judge func(read resource.Reader, node string, a *auth.Attributes) string

// subdivided are the resources of which an agent gets only its share.
var subdivided = map[string]judge{
	"/secrets":                                   shared(secretUsed),
	"/configmaps":                                shared(configMapUsed),
	"/persistentvolumeclaims":                    claims,
	"/persistentvolumes":                         only(volumeUsed),
	"/serviceaccounts":                           accounts,
	"/pods":                                      pods,
	"/nodes":                                     nodes,
	"resource.k8s.io/resourceclaims":             only(deviceClaimUsed),
	"resource.k8s.io/resourceslices":             slicesOf,
	"storage.k8s.io/volumeattachments":           only(attached),
	"storage.k8s.io/csinodes":                    csiNodes,
	"coordination.k8s.io/leases":                 leases,
	"certificates.k8s.io/podcertificaterequests": podRequests,
}

// A relation tells whether the named object is used on the node.
type relation func(read resource.Reader, node, ns, name string) bool

func related(read resource.Reader, node string, a *auth.Attributes, r relation) string {
	switch {
	case a.Name == "":
		return "No Object name found"
	case !r(read, node, a.Namespace, a.Name):
		return fmt.Sprintf("no relationship found between node '%s' and this object", node)
	}
	return ""
}

// shared lets an agent get and watch single objects that its pods use.
func shared(r relation) judge {
	return func(read resource.Reader, node string, a *auth.Attributes) string {
		switch {
		case a.Verb != "get" && a.Verb != "list" && a.Verb != "watch":
			return "can only read resources of this type"
		case a.Subresource != "":
			return "cannot read subresource"
		case a.Namespace == "":
			return "can only read namespaced object of this type"
		}
		return related(read, node, a, r)
	}
}

// only lets an agent get single objects that its pods use.
func only(r relation) judge {
	return func(read resource.Reader, node string, a *auth.Attributes) string {
		switch {
		case a.Verb != "get":
			return "can only get individual resources of this type"
		case a.Subresource != "":
			return "cannot get subresource"
		}
		return related(read, node, a, r)
	}
}

// Unlike Kubernetes, whose agents may get single claims of their pods and no more, ours watch them too.
func claims(read resource.Reader, node string, a *auth.Attributes) string {
	if a.Subresource != "status" {
		return shared(claimUsed)(read, node, a)
	}
	if a.Verb != "get" && a.Verb != "update" && a.Verb != "patch" {
		return "can only get/update/patch this type"
	}
	return related(read, node, a, claimUsed)
}

func accounts(read resource.Reader, node string, a *auth.Attributes) string {
	switch {
	case a.Subresource == "":
		return only(accountUsed)(read, node, a)
	case a.Verb != "create" || a.Name == "":
		return "can only create tokens for individual service accounts"
	case a.Subresource != "token":
		return "can only create token subresource of service account"
	}
	return related(read, node, a, accountUsed)
}

func pods(read resource.Reader, node string, a *auth.Attributes) string {
	switch a.Subresource {
	case "":
		switch a.Verb {
		case "get":
			return related(read, node, a, podOn)
		case "create", "delete": // NodeRestriction says which
			return ""
		}
	case "status":
		if a.Verb == "update" || a.Verb == "patch" {
			return ""
		}
	case "eviction":
		if a.Verb == "create" {
			return ""
		}
	}
	return fmt.Sprintf("cannot %s this subresource or resource", a.Verb)
}

func nodes(_ resource.Reader, node string, a *auth.Attributes) string {
	switch {
	case a.Subresource == "" && (a.Verb == "create" || a.Verb == "update" || a.Verb == "patch"): // NodeRestriction says which
		return ""
	case a.Subresource == "status" && (a.Verb == "update" || a.Verb == "patch"):
		return ""
	case a.Subresource != "" || a.Verb != "get":
		return fmt.Sprintf("cannot %s this subresource or resource", a.Verb)
	case a.Name == node:
		return ""
	case a.Name == "":
		return fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
	}
	return fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, a.Name)
}

func leases(_ resource.Reader, node string, a *auth.Attributes) string {
	switch {
	// Unlike Kubernetes, agents agree by Leases on the one that answers for a load balancer's address; see NodeRestriction.
	case a.Namespace == wellknown.AnnounceSpace && oneOf(a.Verb, "get", "list", "watch", "update"):
		return ""
	case !oneOf(a.Verb, "get", "create", "update", "patch", "delete"):
		return "can only get, create, update, patch, or delete a node lease"
	case a.Namespace != corev1.NamespaceNodeLease:
		return fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case a.Verb != "create" && a.Name != node: // the name of a new one is NodeRestriction's to check
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

func csiNodes(_ resource.Reader, node string, a *auth.Attributes) string {
	switch {
	case !oneOf(a.Verb, "get", "create", "update", "patch", "delete"):
		return "can only get, create, update, patch, or delete a CSINode"
	case a.Subresource != "":
		return "cannot authorize CSINode subresources"
	case a.Verb != "create" && a.Name != node:
		return "can only access CSINode with the same name as the requesting node"
	}
	return ""
}

func slicesOf(read resource.Reader, node string, a *auth.Attributes) string {
	switch {
	case a.Subresource != "":
		return "cannot authorize ResourceSlice subresources"
	case a.Verb == "create": // NodeRestriction says which
		return ""
	case oneOf(a.Verb, "get", "update", "patch", "delete"):
		return related(read, node, a, func(read resource.Reader, node, _, name string) bool {
			s, ok := read.Lookup(dra.ResourceSlices, "", name).(*resourcev1.ResourceSlice)
			return ok && s.Spec.NodeName != nil && *s.Spec.NodeName == node
		})
	case oneOf(a.Verb, "list", "watch", "deletecollection"):
		if selects(a, resourcev1.ResourceSliceSelectorNodeName, node) {
			return ""
		}
		return "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func podRequests(read resource.Reader, node string, a *auth.Attributes) string {
	switch {
	case a.Subresource != "":
		return "nodes may not access the status or other subresources of podcertificaterequests"
	case a.Verb == "create": // NodeRestriction says which
		return ""
	case a.Verb == "get":
		return related(read, node, a, func(read resource.Reader, node, ns, name string) bool {
			p := resource.Get(read, certificates.PodCertificateRequests, ns, name)
			return p != nil && string(p.Spec.NodeName) == node
		})
	case (a.Verb == "list" || a.Verb == "watch") && selects(a, "spec.nodeName", node):
		return ""
	}
	return "can only create, get, and list/watch podcertificaterequests with a spec.nodeName field selector"
}

// attached tells whether the volume attachment is one of the node's.
func attached(read resource.Reader, node, _, name string) bool {
	v := resource.Get(read, storage.VolumeAttachments, "", name)
	return v != nil && v.Spec.NodeName == node
}

func podOn(read resource.Reader, node, ns, name string) bool {
	p := resource.Get(read, core.Pods, ns, name)
	return p != nil && p.Spec.NodeName == node
}

// selects tells whether the field selector lets through nothing but objects of that value.
func selects(a *auth.Attributes, label, value string) bool {
	if a.FieldSelector == "" {
		return false
	}
	s, err := fields.ParseSelector(a.FieldSelector)
	if err != nil {
		return false
	}
	for _, r := range s.Requirements() {
		if r.Field == label && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) {
			return true
		}
	}
	return false
}

func oneOf(verb string, verbs ...string) bool {
	for _, v := range verbs {
		if v == verb {
			return true
		}
	}
	return false
}
