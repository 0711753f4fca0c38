// Package applyset keeps a group of objects as a source of manifests describes them: what the source holds is applied with
// server-side apply, what it lost is pruned. Membership is written in the cluster as ApplySet has it (KEP-3659), so kubectl sees
// it, and a loop that starts cold finds it again.
package applyset

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/resource"
)

// The labels and annotations of ApplySet, as kubectl writes them.
const (
	idLabel     = "applyset.kubernetes.io/id"                   // of the parent
	PartOf      = "applyset.kubernetes.io/part-of"              // of every member: the parent's id
	toolingNote = "applyset.kubernetes.io/tooling"              // of the parent: who manages the set
	kindsNote   = "applyset.kubernetes.io/contains-group-kinds" // of the parent: where members are looked for
)

// OriginNote is the annotation that says where in the source a member is described.
const OriginNote = "applyset.kloop.dev/origin"

// KeepNote, with the value "false", has a member pruned although its kind is kept by default: what lies in a Namespace, behind a
// definition or on a volume would go with it.
const KeepNote = "applyset.kloop.dev/keep"

// A Set is an ApplySet whose parent is a ConfigMap.
type Set struct {
	Namespace, Name string // of the parent
	Tooling         string // NAME/VERSION
}

// ID is the id of the set, which follows from its parent's name.
func (s Set) ID() string {
	sum := sha256.Sum256([]byte(s.Name + "." + s.Namespace + ".ConfigMap."))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}

// parent returns the parent as it should be; have is the one that exists, or nil.
func (s Set) parent(have *corev1.ConfigMap, in []schema.GroupKind) *corev1.ConfigMap {
	p := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	if have != nil {
		p = resource.Clone(have)
	}
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	var names []string
	for _, gk := range in {
		names = append(names, gk.String())
	}
	slices.Sort(names)
	p.Labels[idLabel] = s.ID()
	p.Annotations[toolingNote] = s.Tooling
	p.Annotations[kindsNote] = strings.Join(slices.Compact(names), ",")
	return p
}

// kindsOf are the kinds in which a parent says that it has members.
func kindsOf(parent *corev1.ConfigMap) (list []schema.GroupKind) {
	if parent == nil {
		return nil
	}
	for name := range strings.SplitSeq(parent.Annotations[kindsNote], ",") {
		if name != "" {
			list = append(list, schema.ParseGroupKind(name))
		}
	}
	return list
}

// A Wish is an object as the source describes it.
type Wish struct {
	Object *unstructured.Unstructured
	Origin string // where in the source it stands
	Hash   string // of what is described; changes when it does
}

// An ID names an object in any version.
type ID struct {
	schema.GroupKind
	Namespace, Name string
}

// String names the object in errors and status.
func (id ID) String() string {
	s := strings.ToLower(id.Kind) + "/"
	if id.Namespace != "" {
		s += id.Namespace + "/"
	}
	return s + id.Name
}

// rank orders objects so that what others need comes before them. Pruning goes the other way.
func rank(gk schema.GroupKind) int {
	switch gk.Kind {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	case "PriorityClass", "StorageClass", "IngressClass", "RuntimeClass", "ServiceAccount", "ClusterRole", "Role",
		"ClusterRoleBinding", "RoleBinding", "Secret", "ConfigMap", "PersistentVolume", "PersistentVolumeClaim", "LimitRange", "ResourceQuota":
		return 2
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService":
		return 4 // they call what the others make
	}
	return 3
}

func byRank(a, b ID) int {
	return cmp.Or(cmp.Compare(rank(a.GroupKind), rank(b.GroupKind)), cmp.Compare(a.String(), b.String()), cmp.Compare(a.Group, b.Group))
}
