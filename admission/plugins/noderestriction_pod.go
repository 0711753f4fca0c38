package plugins

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/storage"
	"github.com/kloop-dev/kloop/resource"
)

// nodePods lets an agent show its static pods, remove pods of its node, report on them and evict them.
func nodePods(ctx context.Context, r *admission.Request, node string) error {
	switch {
	case r.Sub == "" && r.Op == admission.Create:
		return nodeMirror(r, node)
	case r.Sub == "" && r.Op == admission.Delete:
		return ownPod(ctx, r, node, "node %q can only delete pods with spec.nodeName set to itself")
	case r.Sub == "":
		return r.Refuse("unexpected operation %q, node %q can only create and delete mirror pods", r.Op, node)
	case r.Sub == "status" && r.Op == admission.Update:
		return nodePodStatus(r, node)
	case r.Sub == "status":
		return r.Refuse("unexpected operation %q", r.Op)
	case r.Sub == "eviction" && r.Op == admission.Create:
		return ownPod(ctx, r, node, "node %s can only evict pods with spec.nodeName set to itself")
	case r.Sub == "eviction":
		return r.Refuse("unexpected operation %s", r.Op)
	}
	return r.Refuse("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", r.Sub)
}

func ownPod(ctx context.Context, r *admission.Request, node, refusal string) error {
	pod := resource.Get(r.Read, core.Pods, r.Namespace, r.Name)
	if pod == nil {
		var err error
		if pod, err = admission.Live(ctx, r, core.Pods, r.Namespace, r.Name); err != nil {
			return err
		}
	}
	if pod.Spec.NodeName != node {
		return r.Refuse(refusal, node)
	}
	return nil
}

func nodePodStatus(r *admission.Request, node string) error {
	pod, ok := r.Object.(*corev1.Pod)
	old, was := r.Old.(*corev1.Pod)
	switch {
	case !ok || !was:
		return nil
	case old.Spec.NodeName != node:
		return r.Refuse("node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !maps.Equal(pod.Labels, old.Labels):
		return r.Refuse("node %q cannot update labels through pod status", node)
	case !equality.Semantic.DeepEqual(pod.Status.ResourceClaimStatuses, old.Status.ResourceClaimStatuses):
		return r.Refuse("node %q cannot update resource claim statues", node) // upstream's spelling
	case !equality.Semantic.DeepEqual(pod.Status.ExtendedResourceClaimStatus, old.Status.ExtendedResourceClaimStatus):
		return r.Refuse("node %q cannot update extended resource claim status", node)
	}
	return nil
}

// nodeMirror lets an agent create nothing but the image of a static pod of its own, which gives it no access
// to anything.
func nodeMirror(r *admission.Request, node string) error {
	pod, ok := r.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	if !isMirror(pod) {
		return r.Refuse("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node)
	}
	if pod.Spec.NodeName != node {
		return r.Refuse("node %q can only create pods with spec.nodeName set to itself", node)
	}
	if err := nodeOwner(r, pod, node); err != nil {
		return err
	}
	if pod.Spec.ServiceAccountName != "" {
		return r.Refuse("node %q can not create pods that reference a service account", node)
	}
	if what := referenced(pod); what != "" {
		return r.Refuse("node %q can not create pods that reference %s", node, what)
	}
	return nil
}

// nodeOwner demands that a mirror pod is owned by its node, and goes with it.
func nodeOwner(r *admission.Request, pod *corev1.Pod, node string) error {
	switch len(pod.OwnerReferences) {
	case 0:
		return r.Refuse("node %q can only create pods with an owner reference set to itself", node)
	case 1:
	default:
		return r.Refuse("node %q can only create pods with a single owner reference set to itself", node)
	}
	o := pod.OwnerReferences[0]
	switch {
	case o.APIVersion != "v1" || o.Kind != "Node" || o.Name != node:
		return r.Refuse("node %q can only create pods with an owner reference set to itself", node)
	case o.Controller == nil || !*o.Controller:
		return r.Refuse("node %q can only create pods with a controller owner reference set to itself", node)
	case o.BlockOwnerDeletion != nil && *o.BlockOwnerDeletion:
		return r.Refuse("node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	n := resource.Get(r.Read, core.Nodes, "", node)
	if n == nil {
		return r.Refuse("node %q not found", node)
	}
	if n.UID != o.UID {
		return r.Refuse("node %s UID mismatch: expected %s got %s", node, o.UID, n.UID)
	}
	return nil
}

// referenced names the first kind of object that the pod refers to; "" if there is none.
func referenced(pod *corev1.Pod) string {
	if namesSecret(reflect.ValueOf(&pod.Spec).Elem()) {
		return "secrets"
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				return "configmaps"
			}
		}
		for _, f := range c.EnvFrom {
			if f.ConfigMapRef != nil {
				return "configmaps"
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			return "configmaps"
		case v.PersistentVolumeClaim != nil || v.Ephemeral != nil:
			return "persistentvolumeclaims"
		case v.Projected == nil:
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.Secret != nil:
				return "secrets"
			case s.ConfigMap != nil:
				return "configmaps"
			case s.ServiceAccountToken != nil:
				return "a service account"
			case s.ClusterTrustBundle != nil:
				return "clustertrustbundles"
			case s.PodCertificate != nil:
				return "pod certificates"
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	return ""
}

// namesSecret says that a secret is named in a part of a pod's spec. It looks at all fields that are called so, those of
// every kind of volume and those that are still to come: a list would forget some.
func namesSecret(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && namesSecret(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if namesSecret(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if strings.Contains(name, "Secret") && name != "SecretFile" && says(v.Field(i)) { // SecretFile is on the node
				return true
			}
			if v.Type().Field(i).IsExported() && namesSecret(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// says reports whether there is any text in a value: a reference without a name leads to nothing.
func says(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && says(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if says(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if says(v.Field(i)) {
				return true
			}
		}
	case reflect.String:
		return v.Len() > 0
	}
	return false
}

// nodeTokens lets an agent ask for tokens of the pods on its node, for the audiences that those pods ask for.
func (n nodeRestriction) nodeTokens(ctx context.Context, r *admission.Request, node string) error {
	tr, ok := r.Object.(*authenticationv1.TokenRequest)
	if !ok || r.Op != admission.Create || r.Sub != "token" {
		return nil
	}
	ref := tr.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return r.Refuse("node requested token not bound to a pod")
	case ref.UID == "":
		return r.Refuse("node requested token with a pod binding without a uid")
	}
	pod := resource.Get(r.Read, core.Pods, r.Namespace, ref.Name)
	if pod == nil {
		var err error
		if pod, err = admission.Live(ctx, r, core.Pods, r.Namespace, ref.Name); err != nil {
			return err
		}
	}
	switch {
	case pod.UID != ref.UID:
		return r.Refuse("the UID in the bound object reference (%s) does not match the UID in record. "+
			"The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != node:
		return r.Refuse("node requested token bound to a pod scheduled on a different node")
	}
	if len(tr.Spec.Audiences) > 1 {
		return r.Refuse("node may only request 0 or 1 audiences")
	}
	audience := strings.Join(tr.Spec.Audiences, "")
	if asksFor(r.Read, pod, audience) {
		return nil
	}
	ok, err := n.may(ctx, r, "request-serviceaccounts-token-audience", audience, r.Name)
	switch {
	case ok:
		return nil
	case r.Features.AtLeast(37) && err != nil:
		return r.Refuse("error authorizing %s to request tokens for audience %q: %w", r.User.Name, audience, err)
	case r.Features.AtLeast(37):
		return r.Refuse("%s is not authorized to request tokens for audience %q", r.User.Name, audience)
	case err != nil:
		return r.Refuse("audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w", audience,
			r.User.Name, err)
	}
	return r.Refuse("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience,
		r.User.Name)
}

// asksFor tells whether a volume of the pod needs a token for the audience.
func asksFor(read resource.Reader, pod *corev1.Pod, audience string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				if s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience {
					return true
				}
			}
		}
		driver := driverOf(read, pod, v)
		if driver == "" {
			continue
		}
		if d := resource.Get(read, storage.CSIDrivers, "", driver); d != nil {
			for _, t := range d.Spec.TokenRequests {
				if t.Audience == audience {
					return true
				}
			}
		}
	}
	return false
}

// driverOf names the CSI driver behind a volume.
func driverOf(read resource.Reader, pod *corev1.Pod, v corev1.Volume) string {
	claim := ""
	switch {
	case v.CSI != nil:
		return v.CSI.Driver
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		claim = pod.Name + "-" + v.Name
	default:
		return ""
	}
	c := resource.Get(read, core.PersistentVolumeClaims, pod.Namespace, claim)
	if c == nil {
		return ""
	}
	pv := resource.Get(read, core.PersistentVolumes, "", c.Spec.VolumeName)
	if pv == nil || pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}

// may asks whether the agent has a right by which pods need not say what it wants.
func (n nodeRestriction) may(ctx context.Context, r *admission.Request, verb, what, account string) (bool, error) {
	hub := r.Kind.Info().GVK
	d, _, err := n.authorize.Authorize(ctx, &auth.Attributes{User: r.User, Verb: verb, Group: hub.Group, Version: hub.Version,
		Resource: what, Namespace: r.Namespace, Name: account})
	return d == auth.Allow, err
}

// ownLabels are the labels below kubernetes.io and k8s.io that agents set on their node.
var ownLabels = []string{corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
	corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch"}

// forbiddenLabels lists the labels that differ and are not an agent's to set.
func forbiddenLabels(now, was map[string]string) (bad []string) {
	differs := func(key string) bool {
		a, x := now[key]
		b, y := was[key]
		return x != y || a != b
	}
	for _, m := range []map[string]string{now, was} {
		for key := range m {
			if differs(key) && !agentLabel(key) && !slices.Contains(bad, key) {
				bad = append(bad, key)
			}
		}
	}
	slices.Sort(bad)
	return bad
}

func agentLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	switch {
	case under("node-restriction.kubernetes.io"):
		return false
	case !under("kubernetes.io") && !under("k8s.io"):
		return true
	case slices.Contains(ownLabels, key):
		return true
	}
	return under("kubelet.kubernetes.io") || under("node.kubernetes.io")
}
