package plugins

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/wellknown"
	"github.com/kloop-dev/kloop/resource"
)

// nodeRestriction keeps node agents to their own node, the pods on it, and what belongs to both. Whether they
// may touch a kind of object at all is the node authorizer's to say.
type nodeRestriction struct{ authorize auth.Authorizer }

func (n nodeRestriction) admit(ctx context.Context, r *admission.Request) error {
	node, ok := r.User.NodeName()
	if !ok {
		return nil
	}
	switch r.GR().String() {
	case "pods":
		return nodePods(ctx, r, node)
	case "nodes":
		return nodeNodes(r, node)
	case "persistentvolumeclaims":
		return nodeClaims(r, node)
	case "serviceaccounts":
		return n.nodeTokens(ctx, r, node)
	case "leases.coordination.k8s.io":
		return nodeLeases(r, node)
	case "csinodes.storage.k8s.io":
		return nodeCSINodes(r, node)
	case "resourceslices.resource.k8s.io":
		return nodeSlices(r, node)
	case "certificatesigningrequests.certificates.k8s.io":
		return nodeRequests(r, node)
	case "podcertificaterequests.certificates.k8s.io":
		return n.nodePodRequests(ctx, r, node)
	}
	return nil
}

// nodeNodes lets an agent change its own node, but neither what keeps pods off it nor labels that others rely on.
func nodeNodes(r *admission.Request, node string) error {
	name := r.Name
	if name == "" && r.Object != nil {
		name = r.Object.GetName()
	}
	if name != node {
		return r.Refuse("node %q is not allowed to modify node %q", node, name)
	}
	obj, ok := r.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	old, ok := r.Old.(*corev1.Node)
	if !ok || r.Op == admission.Create {
		if obj.Spec.ConfigSource != nil {
			return r.Refuse("node %q is not allowed to create pods with a non-nil configSource", node) // upstream's words
		}
		if bad := forbiddenLabels(obj.Labels, nil); len(bad) > 0 {
			return r.Refuse("node %q is not allowed to set the following labels: %s", node, strings.Join(bad, ", "))
		}
		return nil
	}
	if obj.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(obj.Spec.ConfigSource, old.Spec.ConfigSource) {
		return r.Refuse("node %q is not allowed to update configSource to a new non-nil configSource", node)
	}
	if !equality.Semantic.DeepEqual(obj.Spec.Taints, old.Spec.Taints) {
		return r.Refuse("node %q is not allowed to modify taints", node)
	}
	if bad := forbiddenLabels(obj.Labels, old.Labels); len(bad) > 0 {
		return r.Refuse("is not allowed to modify labels: %s", strings.Join(bad, ", "))
	}
	if !equality.Semantic.DeepEqual(obj.OwnerReferences, old.OwnerReferences) {
		return r.Refuse("node %q is not allowed to modify ownerReferences", node)
	}
	return nil
}

// nodeClaims lets an agent report the size of volumes.
func nodeClaims(r *admission.Request, node string) error {
	if r.Sub != "status" || r.Op != admission.Update {
		return r.Refuse("may only update PVC status")
	}
	obj, ok := r.Object.(*corev1.PersistentVolumeClaim)
	old, was := r.Old.(*corev1.PersistentVolumeClaim)
	if !ok || !was {
		return nil
	}
	a, b := reported(obj), reported(old)
	if !equality.Semantic.DeepEqual(a, b) {
		return r.Refuse("node %q is not allowed to update fields other than status.quantity and status.conditions", node)
	}
	return nil
}

// reported is the claim without what an agent may report.
func reported(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	c = c.DeepCopy()
	c.ManagedFields, c.Status.Capacity, c.Status.Conditions = nil, nil, nil
	c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
	return c
}

// nodeLeases lets an agent renew its own lease.
func nodeLeases(r *admission.Request, node string) error {
	if r.Namespace == wellknown.AnnounceSpace && r.Op == admission.Update {
		return nodeAnnounces(r, node)
	}
	if r.Namespace != corev1.NamespaceNodeLease {
		return r.Refuse("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	}
	name := r.Name
	if r.Op == admission.Create && r.Object != nil { // a name that is still to be generated is not the node's
		name = r.Object.GetName()
	}
	if name != node {
		return r.Refuse("can only access node lease with the same name as the requesting node")
	}
	return nil
}

// nodeAnnounces lets an agent take, or let go of, the Lease of a load balancer's address for which it is a candidate, and note in it
// what is wrong: nothing else.
func nodeAnnounces(r *admission.Request, node string) error {
	old, ok := r.Old.(*coordinationv1.Lease)
	next, nok := r.Object.(*coordinationv1.Lease)
	if !ok || !nok || old.Labels[wellknown.AnnounceLabel] == "" {
		return r.Refuse("can only update leases that announce addresses in the namespace %q", wellknown.AnnounceSpace)
	}
	holder := func(l *coordinationv1.Lease) string {
		if l.Spec.HolderIdentity == nil {
			return ""
		}
		return *l.Spec.HolderIdentity
	}
	was, is := holder(old), holder(next)
	var list []wellknown.Candidate
	_ = json.Unmarshal([]byte(old.Annotations[wellknown.AnnouncedCandidates]), &list) // what can't be read names no candidate
	candidate := slices.ContainsFunc(list, func(c wellknown.Candidate) bool { return c.Node == node })
	if is != was && !(is == node && candidate) && !(is == "" && was == node) || is == was && was != node && !candidate {
		return r.Refuse("node %q can only take an address for which it is a candidate, and let go of its own", node)
	}
	allowed := old.DeepCopy()
	allowed.Spec, allowed.ResourceVersion, allowed.ManagedFields = next.Spec, next.ResourceVersion, next.ManagedFields
	notes := []string{wellknown.AnnouncedTrouble, wellknown.BGPSessions}
	for _, note := range notes {
		delete(allowed.Annotations, note)
		if text, there := next.Annotations[note]; there {
			metav1.SetMetaDataAnnotation(&allowed.ObjectMeta, note, text)
		}
	}
	if !equality.Semantic.DeepEqual(allowed.ObjectMeta, next.ObjectMeta) {
		return r.Refuse("node %q can only change the holder of the lease, and the notes %v", node, notes)
	}
	return nil
}

func nodeCSINodes(r *admission.Request, node string) error {
	if _, ok := r.Object.(*storagev1.CSINode); ok && r.Op == admission.Create && r.Object.GetName() != node || r.Op != admission.Create &&
		r.Name != node {
		return r.Refuse("can only access CSINode with the same name as the requesting node")
	}
	return nil
}

// nodeSlices lets drivers on a node publish the devices of this node.
func nodeSlices(r *admission.Request, node string) error {
	verb, obj := "create", r.Object
	switch r.Op {
	case admission.Update:
		verb = "update"
	case admission.Delete:
		verb, obj = "delete", r.Old
	}
	s, ok := obj.(*resourcev1.ResourceSlice)
	if ok && (s.Spec.NodeName == nil || *s.Spec.NodeName != node) {
		return r.Refuse("can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}

// nodeRequests lets an agent ask for certificates of its own node.
func nodeRequests(r *admission.Request, node string) error {
	csr, ok := r.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || !r.On(certificatesv1.GroupName, "certificatesigningrequests", admission.Create) ||
		csr.Spec.SignerName != certificatesv1.KubeletServingSignerName &&
			csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName {
		return nil
	}
	req, err := admission.ParseRequest(csr.Spec.Request)
	if err != nil {
		return r.Refuse("unable to parse csr: %w", err)
	}
	if req.Subject.CommonName != r.User.Name {
		return r.Refuse("can only create a node CSR with CN=%s", r.User.Name)
	}
	return nil
}

// nodePodRequests lets an agent ask for certificates of the pods on its node.
func (n nodeRestriction) nodePodRequests(ctx context.Context, r *admission.Request, node string) error {
	req, ok := r.Object.(*certificatesv1.PodCertificateRequest)
	if !ok || !r.On(certificatesv1.GroupName, "podcertificaterequests", admission.Create) {
		return nil
	}
	if string(req.Spec.NodeName) != node {
		return r.Refuse("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", req.Spec.NodeName, node)
	}
	pod := resource.Get(r.Read, core.Pods, r.Namespace, req.Spec.PodName)
	if pod == nil {
		var err error
		if pod, err = admission.Live(ctx, r, core.Pods, r.Namespace, req.Spec.PodName); err != nil {
			return r.Refuse("while retrieving pod %q: %w", req.Spec.PodName, err)
		}
	}
	switch {
	case isMirror(pod):
		return r.Refuse("pod %q is a mirror pod", pod.Name)
	case pod.UID != req.Spec.PodUID:
		return r.Refuse("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod (%q)", pod.Name,
			req.Spec.PodUID, pod.UID)
	case pod.Spec.NodeName != node:
		return r.Refuse("pod %q is not running on the requesting node %q", pod.Name, node)
	case pod.Spec.ServiceAccountName != req.Spec.ServiceAccountName:
		return r.Refuse("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)",
			pod.Name, req.Spec.ServiceAccountName, pod.Spec.ServiceAccountName)
	case r.Features.AtLeast(37) && !mountsCertificate(pod, req.Spec.SignerName):
		ok, err := n.may(ctx, r, "request-serviceaccounts-podcertificate-signer", strings.ReplaceAll(req.Spec.SignerName, "/", ":"),
			req.Spec.ServiceAccountName)
		switch {
		case ok:
		case err != nil:
			return r.Refuse("error authorizing %s to request podcertificaterequests for signer %q: %w", r.User.Name, req.Spec.SignerName, err)
		default:
			return r.Refuse("pod %q does not mount a podCertificate projected volume for signer %q", r.Namespace+"/"+req.Spec.PodName,
				req.Spec.SignerName)
		}
	}
	return nil
}

// mountsCertificate tells whether a volume of the pod has a certificate by the signer.
func mountsCertificate(pod *corev1.Pod, signer string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.PodCertificate != nil && s.PodCertificate.SignerName == signer
		})
	})
}
