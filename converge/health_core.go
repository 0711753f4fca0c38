package converge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// podCondition finds a condition of a pod.
func podCondition(p *corev1.Pod, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == typ {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// podHealth finds no gap in a pod that failed under a controller: the controller has its say about that.
func podHealth(w *World, p *corev1.Pod) Health {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return Health{}
	case corev1.PodFailed:
		if metav1.GetControllerOfNoCopy(p) != nil {
			return Health{}
		}
		return Health{Says: "failed", Want: "status.phase=Running", Have: "status.phase=Failed", Since: ended(p)}
	}
	ready := podCondition(p, corev1.PodReady)
	switch {
	case ready != nil && ready.Status == corev1.ConditionTrue:
		if h := flaps(w, p); !h.Converged() {
			return h
		}
		if h := resizeHealth(p); !h.Converged() {
			return h
		}
		return debugHealth(p)
	case p.Spec.NodeName == "":
		h := Health{Says: "has no node", Want: "spec.nodeName set", Have: "spec.nodeName empty", Since: p.CreationTimestamp.Time}
		return h
	case p.Status.Phase == corev1.PodRunning:
		h := Health{Says: "runs and is not ready", Want: "status.conditions[Ready]=True", Have: "status.conditions[Ready]=False"}
		if ready != nil {
			h.Since = ready.LastTransitionTime.Time
		}
		return h
	}
	h := Health{Says: "has a node and does not run", Want: "status.phase=Running", Have: "status.phase=" + string(p.Status.Phase),
		Since: p.CreationTimestamp.Time}
	if c := podCondition(p, corev1.PodScheduled); c != nil {
		h.Since = c.LastTransitionTime.Time
	}
	return h
}

// debugHealth finds a gap in a pod whose container for debugging does not start, though all else is well.
func debugHealth(p *corev1.Pod) Health {
	for i := range p.Status.EphemeralContainerStatuses {
		c := &p.Status.EphemeralContainerStatuses[i]
		if reason, _ := waitsFor(c); reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
			return Health{Says: "has a container for debugging, " + c.Name + ", that does not start",
				Want: fmt.Sprintf("status.ephemeralContainerStatuses[%s].state=running", c.Name),
				Have: "waiting: " + reason}
		}
	}
	return Health{}
}

// ended is the time at which the last container of a pod ended.
func ended(p *corev1.Pod) (at time.Time) {
	at = p.CreationTimestamp.Time
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// serviceHealth finds no gap in a service whose workloads are scaled to zero: its user asked for that.
func serviceHealth(w *World, s *corev1.Service) Health {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return Health{Says: "has no address outside the cluster", Want: "spec.type=LoadBalancer", Have: "status.loadBalancer.ingress empty"}
	}
	if why := unannounced(s); why != "" && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return Health{Says: "has an address that no node answers for", Want: "a node that announces it", Have: why}
	}
	if u := answerer(w, s); u != nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return Health{Says: "has an address that is not answered as it should be", Want: "a node that answers for " + u.address, Have: u.text()}
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return aliasHealth(w, s)
	}
	if !w.Sees(kinds.EndpointSlices, s.Namespace) {
		return Health{}
	}
	ports, any := openPorts(w, s)
	if any {
		return portsHealth(s, ports)
	}
	if len(s.Spec.Selector) == 0 {
		if hasEndpoints(w, s) || w.early(s.CreationTimestamp.Add(grace)) {
			return Health{}
		}
		return Health{Says: "leads nowhere", Want: "spec.ports[" + fmt.Sprint(len(s.Spec.Ports)) + "]", Have: "no selector and no endpoints"}
	}
	picked := selected(w, s)
	if len(picked) == 0 && (asleep(w, s) != "" || w.early(s.CreationTimestamp.Add(grace))) {
		return Health{}
	}
	h := Health{Says: "has no endpoint that takes connections", Want: "spec.selector=" + labels.Set(s.Spec.Selector).String(),
		Have: "no ready endpoint"}
	for _, p := range picked {
		if c := podCondition(p, corev1.PodReady); c != nil && c.LastTransitionTime.After(h.Since) {
			h.Since = c.LastTransitionTime.Time
		}
	}
	return h
}

// openPorts are the names of the ports that lead to an endpoint that takes connections, and whether there is such an endpoint.
func openPorts(w *World, s *corev1.Service) (names map[string]bool, any bool) {
	names = map[string]bool{}
	for obj := range w.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		slice := obj.(*discoveryv1.EndpointSlice)
		if len(slice.Ports) == 0 && len(s.Spec.Ports) > 0 || !suits(s, slice) {
			continue // its pods have none of the service's ports, or no address that goes with its own
		}
		for _, ep := range slice.Endpoints {
			if !ptr.Deref(ep.Conditions.Ready, true) {
				continue
			}
			any = true
			for _, p := range slice.Ports {
				names[ptr.Deref(p.Name, "")] = true
			}
			break
		}
	}
	return names, any
}

// suits says that the addresses of a slice are of a family that the service has: others are led to by nobody.
func suits(s *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return len(s.Spec.IPFamilies) == 0 || slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(slice.AddressType))
}

// hasEndpoints says that somebody made endpoints for a service, ready or not.
func hasEndpoints(w *World, s *corev1.Service) bool {
	for obj := range w.Read.ByLabel(kinds.EndpointSlices, s.Namespace, discoveryv1.LabelServiceName, s.Name) {
		if slice := obj.(*discoveryv1.EndpointSlice); len(slice.Endpoints) > 0 && suits(s, slice) {
			return true
		}
	}
	return false
}

// portsHealth finds a gap in a service of which one port leads nowhere though others lead somewhere.
func portsHealth(s *corev1.Service, open map[string]bool) Health {
	for _, p := range s.Spec.Ports {
		if !open[p.Name] {
			return Health{Says: fmt.Sprintf("has a port, %s, that leads nowhere", portName(p)),
				Want: fmt.Sprintf("spec.ports[%s].targetPort=%s", portName(p), p.TargetPort.String()), Have: "no ready endpoint has it"}
		}
	}
	return Health{}
}

// portName names a port of a service.
func portName(p corev1.ServicePort) string { return cmp.Or(p.Name, fmt.Sprint(p.Port)) }

// selected are the pods that a service selects and that are not through.
func selected(w *World, s *corev1.Service) (picked []*corev1.Pod) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	for key, value := range s.Spec.Selector {
		for obj := range w.Read.ByLabel(kinds.Pods, s.Namespace, key, value) {
			p := obj.(*corev1.Pod)
			if sel.Matches(labels.Set(p.Labels)) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				picked = append(picked, p)
			}
		}
		break
	}
	return picked
}

// asleep names the workload of a service that wants no pods, now or any more; "": there is none.
func asleep(w *World, s *corev1.Service) (name string) {
	sel := labels.SelectorFromSet(s.Spec.Selector)
	add := func(k resource.Kind, obj resource.Object, t *corev1.PodTemplateSpec, rests bool) {
		if name == "" && rests && sel.Matches(labels.Set(t.Labels)) {
			name = new(objectOf(k, obj)).Short()
		}
	}
	for _, d := range resource.List(w.Read, kinds.Deployments, s.Namespace) {
		add(kinds.Deployments, d, &d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1) == 0)
	}
	for _, d := range resource.List(w.Read, kinds.StatefulSets, s.Namespace) {
		add(kinds.StatefulSets, d, &d.Spec.Template, ptr.Deref(d.Spec.Replicas, 1) == 0)
	}
	for _, d := range resource.List(w.Read, kinds.DaemonSets, s.Namespace) {
		add(kinds.DaemonSets, d, &d.Spec.Template, d.Status.ObservedGeneration == d.Generation && d.Status.DesiredNumberScheduled == 0)
	}
	for _, j := range resource.List(w.Read, kinds.Jobs, s.Namespace) {
		add(kinds.Jobs, j, &j.Spec.Template, j.Status.Active == 0 && jobHealth(w, j).Converged())
	}
	for _, c := range resource.List(w.Read, kinds.CronJobs, s.Namespace) {
		add(kinds.CronJobs, c, &c.Spec.JobTemplate.Spec.Template, true)
	}
	return name
}

// claimHealth finds no gap in a claim that waits for its first pod and has none.
func claimHealth(w *World, c *corev1.PersistentVolumeClaim) Health {
	want := c.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case c.Status.Phase == corev1.ClaimLost:
		return Health{Says: "has lost its volume", Want: "spec.volumeName=" + c.Spec.VolumeName, Have: "status.phase=Lost"}
	case c.Status.Phase != corev1.ClaimBound:
		if class := classOf(w, c); class != nil && ptr.Deref(class.VolumeBindingMode,
			"") == storagev1.VolumeBindingWaitForFirstConsumer && len(users(w, c)) == 0 {
			return Health{}
		}
		return Health{Says: "has no volume", Want: "status.phase=Bound", Have: "status.phase=" + cmp.Or(string(c.Status.Phase), "Pending"),
			Since: c.CreationTimestamp.Time}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.Status != "" {
		return Health{Says: "has a volume that is not of its class of attributes", Want: "spec.volumeAttributesClassName=" +
			m.TargetVolumeAttributesClassName, Have: "status.modifyVolumeStatus.status=" + string(m.Status)}
	}
	if have, ok := c.Status.Capacity[corev1.ResourceStorage]; ok && have.Cmp(want) < 0 {
		return Health{Says: "is smaller than asked for", Want: "spec.resources.requests.storage=" + want.String(),
			Have: "status.capacity.storage=" + have.String()}
	}
	return Health{}
}

func classOf(w *World, c *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if name := core.ClaimClass(c); name != "" {
		return resource.Get(w.Read, kinds.StorageClasses, "", name)
	}
	return nil
}

// users are the pods that want the claim and are not through.
func users(w *World, c *corev1.PersistentVolumeClaim) (list []*corev1.Pod) {
	for _, p := range resource.List(w.Read, kinds.Pods, c.Namespace) {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, name := range core.ClaimNames(p) {
			if name == c.Name {
				list = append(list, p)
			}
		}
	}
	return list
}

func volumeHealth(w *World, v *corev1.PersistentVolume) Health {
	if unremoved(w, v) != "" || v.Status.Phase == corev1.VolumeReleased &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && w.warning(v.UID, "VolumeFailedDelete") != nil {
		return Health{Says: "is not removed yet", Want: "spec.persistentVolumeReclaimPolicy=Delete", Have: "status.phase=Released"}
	}
	if v.Status.Phase == corev1.VolumeFailed {
		return Health{Says: "could not be reclaimed", Want: "spec.persistentVolumeReclaimPolicy=" + string(v.Spec.PersistentVolumeReclaimPolicy),
			Have: "status.phase=Failed"}
	}
	return Health{}
}

// startupTaint finds one that a program takes away when a new node may be used, by the end of its key. Of the node's own its conditions
// tell.
func startupTaint(n *corev1.Node) *corev1.Taint {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") &&
			(strings.HasSuffix(t.Key, "/uninitialized") || strings.HasSuffix(t.Key, "not-ready") || strings.HasSuffix(t.Key, "/unregistered")) {
			return t
		}
	}
	return nil
}

func nodeHealth(w *World, n *corev1.Node) Health {
	for _, c := range n.Status.Conditions {
		if !badFor(&c) {
			continue
		}
		h := Health{Says: "is not ready", Want: "status.conditions[Ready]=True", Have: fmt.Sprintf("status.conditions[%s]=%s", c.Type, c.Status),
			Since: c.LastTransitionTime.Time}
		if readies(c.Type) && c.Type != corev1.NodeReady {
			h.Says, h.Want = "does not have "+string(c.Type), fmt.Sprintf("status.conditions[%s]=True", c.Type)
		} else if c.Type != corev1.NodeReady {
			h.Says, h.Want = "has "+string(c.Type), fmt.Sprintf("status.conditions[%s]=False", c.Type)
		}
		return h
	}
	if len(n.Status.Conditions) == 0 {
		return Health{Says: "has never reported", Want: "status.conditions[Ready]=True", Have: "status.conditions empty",
			Since: n.CreationTimestamp.Time}
	}
	if t := startupTaint(n); t != nil && !w.early(n.CreationTimestamp.Add(slowStart)) {
		return Health{Says: "is not taken into use", Want: "no taint " + t.Key, Have: "spec.taints[" + t.Key + "]",
			Since: n.CreationTimestamp.Time}
	}
	return Health{}
}

func quotaHealth(w *World, q *corev1.ResourceQuota) Health {
	for name, want := range q.Spec.Hard {
		if have, ok := q.Status.Hard[name]; !ok || have.Cmp(want) != 0 {
			return Health{Says: "is not in force as its spec has it", Want: fmt.Sprintf("spec.hard.%s=%s", name, want.String()),
				Have: "status.hard differs"}
		}
	}
	return Health{}
}

func autoscalerHealth(_ *World, h *autoscalingv2.HorizontalPodAutoscaler) Health {
	for _, c := range h.Status.Conditions {
		if c.Status != corev1.ConditionFalse || c.Reason == "ScalingDisabled" || c.Type == autoscalingv2.ScalingLimited {
			continue
		}
		says := "can't compute how many replicas there should be"
		if c.Type == autoscalingv2.AbleToScale {
			says = "can't scale its target"
		}
		return Health{Says: says, Want: fmt.Sprintf("status.conditions[%s]=True", c.Type),
			Have: fmt.Sprintf("status.conditions[%s]=False", c.Type), Since: c.LastTransitionTime.Time}
	}
	if c := wantsMore(h); c != nil {
		return Health{Says: "wants more replicas than it may have", Want: "status.conditions[ScalingLimited]=False",
			Have: "status.conditions[ScalingLimited]=True", Since: c.LastTransitionTime.Time}
	}
	if len(h.Status.Conditions) == 0 {
		return Health{Says: "was never looked at", Want: "status.conditions[AbleToScale]=True", Have: "status.conditions empty",
			Since: h.CreationTimestamp.Time}
	}
	return Health{}
}

func csrHealth(_ *World, r *certificatesv1.CertificateSigningRequest) Health {
	var approved bool
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return Health{Says: "was denied", Want: "status.certificate", Have: "status.conditions[Denied]=True", Since: c.LastTransitionTime.Time}
		case certificatesv1.CertificateFailed:
			return Health{Says: "could not be signed", Want: "status.certificate", Have: "status.conditions[Failed]=True",
				Since: c.LastTransitionTime.Time}
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	switch {
	case !approved:
		return Health{Says: "is not approved", Want: "status.conditions[Approved]=True", Have: "no approval", Since: r.CreationTimestamp.Time}
	case len(r.Status.Certificate) == 0:
		return Health{Says: "is approved and not signed", Want: "status.certificate set", Have: "status.certificate empty"}
	}
	return Health{}
}

func apiServiceHealth(_ *World, a *apiregistrationv1.APIService) Health {
	if a.Spec.Service == nil {
		return Health{}
	}
	for _, c := range a.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			if c.Status == apiregistrationv1.ConditionTrue {
				return Health{}
			}
			return Health{Says: "is not available", Want: "status.conditions[Available]=True",
				Have:  "status.conditions[Available]=" + string(c.Status),
				Since: c.LastTransitionTime.Time}
		}
	}
	return Health{Says: "is not known to be available", Want: "status.conditions[Available]=True", Have: "no such condition",
		Since: a.CreationTimestamp.Time}
}

func definitionHealth(w *World, d *apiextensionsv1.CustomResourceDefinition) Health {
	state := map[apiextensionsv1.CustomResourceDefinitionConditionType]apiextensionsv1.CustomResourceDefinitionCondition{}
	for _, c := range d.Status.Conditions {
		state[c.Type] = c
	}
	if c := state[apiextensionsv1.NamesAccepted]; c.Status == apiextensionsv1.ConditionFalse {
		return Health{Says: "has names that another definition has", Want: "status.conditions[NamesAccepted]=True",
			Have: "status.conditions[NamesAccepted]=False", Since: c.LastTransitionTime.Time}
	}
	if c := state[apiextensionsv1.Established]; c.Status != apiextensionsv1.ConditionTrue {
		return Health{Says: strings.TrimSuffix("is not served: "+c.Message, ": "), Want: "status.conditions[Established]=True",
			Have: "status.conditions[Established]=" + cmp.Or(string(c.Status), "missing")}
	}
	if ref := converter(d); unconverted(w, d) {
		return Health{Says: "can't be served in all its versions",
			Want: "spec.conversion.webhook.clientConfig.service=" + ref.Namespace + "/" + ref.Name, Have: "no endpoint that takes connections"}
	}
	return Health{}
}
