// Package bootstrap lists the objects that the API server writes when it starts: namespaces, the default
// roles, priority classes, flow control, the service network. The Service default/kubernetes and its endpoints
// are not among them: the server keeps those itself, as they hold its addresses.
package bootstrap

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/auth/rbac"
	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
)

// Config holds what the objects depend on.
type Config struct {
	Features       *features.Set // nil: the newest version's defaults
	ServiceCIDRs   []string      // nil: 10.96.0.0/16
	ClientCA       string        // PEM of the authority that signs client certificates
	FrontProxyCA   string        // PEM of the authority that signs the front proxy's
	FrontProxyName string        // common name that the front proxy's certificate must have
}

// Objects returns the objects in the order in which they are to be written.
func Objects(cfg Config) []resource.Object {
	list := namespaces()
	list = append(list, rbac.Bootstrap(cfg.Features)...)
	list = append(list, priorityClasses()...)
	list = append(list, priorityLevels()...)
	list = append(list, flowSchemas()...)
	return append(list, serviceCIDR(cfg.ServiceCIDRs), Authentication(cfg))
}

func namespaces() (list []resource.Object) {
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		list = append(list, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}})
	}
	return list
}

// highestUser is the highest priority that users may give.
const highestUser = 1000000000

func priorityClasses() (list []resource.Object) {
	policy := corev1.PreemptLowerPriority
	for _, c := range []struct {
		name, text string
		value      int32
	}{
		{"system-node-critical", "Used for system critical pods that must not be moved from their current node.", 2*highestUser + 1000},
		{"system-cluster-critical",
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.", 2 * highestUser},
	} {
		list = append(list, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: c.name},
			TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
			Value:    c.value, Description: c.text, PreemptionPolicy: &policy})
	}
	return list
}

func serviceCIDR(cidrs []string) resource.Object {
	if cidrs == nil {
		cidrs = []string{"10.96.0.0/16"}
	}
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		Spec:     networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

// Authentication tells aggregated API servers whom to believe.
func Authentication(cfg Config) resource.Object {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"client-ca-file":                     cfg.ClientCA,
			"requestheader-client-ca-file":       cfg.FrontProxyCA,
			"requestheader-allowed-names":        `["` + cfg.FrontProxyName + `"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-uid-headers":          `["X-Remote-Uid"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		}}
}

// Reconcile brings an object that exists already up to date with what Objects says: nil means that nothing is
// to be done. replace says that it must be deleted and created again.
func Reconcile(old, want resource.Object) (next resource.Object, replace bool) {
	switch w := want.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole, *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return rbac.Reconcile(old, want)
	case *flowcontrolv1.FlowSchema:
		o := old.(*flowcontrolv1.FlowSchema)
		if !updates(o, o.Generation) || reflect.DeepEqual(o.Spec, w.Spec) {
			return nil, false
		}
		n := o.DeepCopy()
		n.Spec = w.Spec
		return n, false
	case *flowcontrolv1.PriorityLevelConfiguration:
		o := old.(*flowcontrolv1.PriorityLevelConfiguration)
		if !updates(o, o.Generation) || reflect.DeepEqual(o.Spec, w.Spec) {
			return nil, false
		}
		n := o.DeepCopy()
		n.Spec = w.Spec
		return n, false
	case *corev1.ConfigMap:
		o := old.(*corev1.ConfigMap)
		if reflect.DeepEqual(o.Data, w.Data) {
			return nil, false
		}
		n := o.DeepCopy()
		n.Data = w.Data
		return n, false
	}
	return nil, false
}

const autoupdate = "apf.kubernetes.io/autoupdate-spec"

// updates tells whether the spec of a flow control object is ours to keep: always for the mandatory ones, as
// the annotation says for the others, and without it for as long as nobody has changed the spec.
func updates(o resource.Object, generation int64) bool {
	switch o.GetName() {
	case "exempt", "catch-all":
		return true
	}
	switch o.GetAnnotations()[autoupdate] {
	case "true":
		return true
	case "false":
		return false
	}
	return generation == 1
}
