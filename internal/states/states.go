// Package states reads the states of converge/testdata: what a cluster may have, and what must be said of it. Tests of several packages
// go by them.
package states

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
	"github.com/kloop-dev/kloop/view"
)

// A Row is a state as a cluster has it, and what must be said of one object of it. What the loops make of such objects is tried by
// test/why; here are the states that take long to come about, or that other clusters have.
type Row struct {
	Name   string   `json:"name"`
	Given  string   `json:"given"` // objects, in YAML; those of namespaced kinds without a namespace get Namespace
	Ask    string   `json:"ask"`   // RESOURCE[.GROUP]:NAME
	Cause  string   `json:"cause"` // "": nothing is wrong
	Owner  string   `json:"owner"`
	State  string   `json:"state"`
	Says   string   `json:"says"`   // part of the verdict
	Detail string   `json:"detail"` // part of what else matters
	Silent string   `json:"silent"` // no part of the verdict, nor of what comes next
	Next   string   `json:"next"`   // part of what comes next
	Advice []string `json:"advice"` // each a part of one piece of advice
	Rests  string   `json:"rests"`  // part of what is said of one that rests on purpose

	Server *convergence.Server `json:"server"` // what the API server tells of itself; its Lease is asked about
}

// In is the namespace of the object that is asked about, if its kind has namespaces.
func (r *Row) In() string {
	if r.Server != nil {
		return metav1.NamespaceSystem
	}
	return Namespace
}

// Asked is the object that is asked about, and its kind.
func (r *Row) Asked(set *resource.Set, read resource.Reader) (resource.Kind, resource.Object, error) {
	gr, name, err := convergence.ParseName(r.Ask)
	if err != nil {
		return nil, nil, err
	}
	k, ok := set.GR(gr)
	if !ok {
		return nil, nil, fmt.Errorf("no kind %s", gr)
	}
	ns := ""
	if k.Info().Namespaced {
		ns = r.In()
	}
	obj := read.Lookup(k, ns, name)
	if obj == nil {
		return nil, nil, fmt.Errorf("no %s", r.Ask)
	}
	return k, obj, nil
}

// Namespace is that of objects that name none.
const Namespace = "a"

// Noon: the states are looked at then.
var Noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Rows reads the states of a directory.
func Rows(dir string) (rows []Row, err error) {
	for _, file := range []string{"told.yaml", "asked.yaml"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		var more []Row
		if err := yaml.UnmarshalStrict(data, &more); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// healthyNode is there where the text has no node.
const healthyNode = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nstatus: {conditions: [{type: Ready, status: \"True\"}]}\n"

// Objects are those of a text, and a healthy node if it has none.
func Objects(text string) (list []*unstructured.Unstructured, err error) {
	if !strings.Contains(text, "kind: Node\n") {
		text += "---\n" + healthyNode
	}
	for doc := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err = errors.Join(err, u.UnmarshalJSON(data)); err != nil {
			return nil, fmt.Errorf("%w: %s", err, doc)
		}
		list = append(list, u)
	}
	for _, u := range list {
		if Wide(u.GroupVersionKind(), list) {
			u.SetNamespace("")
		}
	}
	return list, nil
}

// World holds the objects of a text, an hour after they were made. A kind that nobody knows is one that users defined.
func World(text string) (*resource.Set, resource.Reader, error) {
	set := kinds.NewSet()
	v := view.New(set)
	all := map[resource.Kind][]resource.Object{}
	list, err := Objects(text)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range list {
		k, ok := set.Kind(u.GroupVersionKind())
		if !ok {
			if k, err = defined(set, u.GroupVersionKind(), list); err != nil {
				return nil, nil, err
			}
		}
		if k.Info().Namespaced && u.GetNamespace() == "" {
			u.SetNamespace(Namespace)
		}
		if u.GetUID() == "" {
			u.SetUID(types.UID(u.GetKind() + "/" + u.GetName()))
		}
		if at := u.GetCreationTimestamp(); at.IsZero() {
			at.Time = Noon.Add(-time.Hour)
			u.SetCreationTimestamp(at)
		}
		u.SetResourceVersion("1")
		obj, err := asObject(k, u)
		if err != nil {
			return nil, nil, err
		}
		all[k] = append(all[k], obj)
	}
	for k, list := range all {
		v.Replace(k, 1, list)
	}
	return set, v.Snapshot(), nil
}

func asObject(k resource.Kind, u *unstructured.Unstructured) (resource.Object, error) {
	if k.Info().Custom {
		return u, nil
	}
	data, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	obj := k.New(k.Info().GVK)
	if _, err := codec.UnmarshalJSON(data, obj); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", u.GetKind(), u.GetName(), err)
	}
	k.SetDefaults(nil, obj)
	return obj, nil
}

// wide are kinds whose objects are of the whole cluster, by group and kind, or "*" for all of a group.
var wide = map[string][]string{"gateway.networking.k8s.io": {"GatewayClass"}, "cert-manager.io": {"ClusterIssuer"},
	"external-secrets.io": {"ClusterSecretStore", "ClusterExternalSecret"}, "karpenter.sh": {"*"}, "karpenter.k8s.aws": {"*"},
	"kueue.x-k8s.io": {"ClusterQueue", "ResourceFlavor", "AdmissionCheck"}, "trust.cert-manager.io": {"Bundle"},
	"operator.tigera.io": {"*"}, "crd.projectcalico.org": {"*"}, "machineconfiguration.openshift.io": {"*"},
	"config.openshift.io": {"*"}, "snapshot.storage.k8s.io": {"VolumeSnapshotContent", "VolumeSnapshotClass"},
	"crd.antrea.io": {"Egress", "ExternalIPPool"}, "kubeovn.io": {"*"}, "cluster.karmada.io": {"Cluster"},
	"remediation.medik8s.io": {"NodeHealthCheck"}, "nmstate.io": {"*"}, "constraints.gatekeeper.sh": {"*"},
	"templates.gatekeeper.sh": {"*"}, "cilium.io": {"CiliumLoadBalancerIPPool", "CiliumBGPClusterConfig", "CiliumBGPPeerConfig"},
	"capsule.clastix.io": {"Tenant"}, "olm.operatorframework.io": {"*"}, "cluster.open-cluster-management.io": {"ManagedCluster"}}

// Wide says that objects of a kind that users defined are of the whole cluster: by its definition, if that is among some objects, else
// since it is known.
func Wide(gvk schema.GroupVersionKind, among []*unstructured.Unstructured) bool {
	if d := definitionOf(gvk, among); d != nil {
		scope, _, _ := unstructured.NestedString(d.Object, "spec", "scope")
		return scope == "Cluster"
	}
	list := wide[gvk.Group]
	return slices.Contains(list, gvk.Kind) || slices.Contains(list, "*")
}

func definitionOf(gvk schema.GroupVersionKind, among []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, u := range among {
		group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		if u.GetKind() == "CustomResourceDefinition" && group == gvk.Group && kind == gvk.Kind {
			return u
		}
	}
	return nil
}

// defined is a kind that users defined, as its definition has it, if that is among the objects.
func defined(set *resource.Set, gvk schema.GroupVersionKind, among []*unstructured.Unstructured) (resource.Kind, error) {
	k := &resource.Def[*unstructured.Unstructured]{GVK: gvk, Plural: strings.ToLower(gvk.Kind) + "s", Namespaced: !Wide(gvk, among),
		JSON: true}
	if d := definitionOf(gvk, among); d != nil {
		k.Short, _, _ = unstructured.NestedStringSlice(d.Object, "spec", "names", "shortNames")
		if plural, _, _ := unstructured.NestedString(d.Object, "spec", "names", "plural"); plural != "" {
			k.Plural = plural
		}
	}
	return k, set.Put(k)
}
