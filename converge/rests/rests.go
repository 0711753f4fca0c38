// Package rests tells of objects that agree with their spec and do nothing, on purpose, and what would end that.
package rests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/causes"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

func restOfDeployment(w *converge.World, d *appsv1.Deployment) (string, string) {
	switch {
	case d.Spec.Paused:
		return "is paused: a change of its template makes no new pods", "kubectl rollout resume deployment " + d.Name + " -n " + d.Namespace
	case ptr.Deref(d.Spec.Replicas, 1) == 0:
		return "is scaled to 0", "kubectl scale deployment " + d.Name + " -n " + d.Namespace + " --replicas=1"
	}
	for _, other := range resource.List(w.Read, kinds.Deployments, d.Namespace) {
		if other.Name != d.Name && equality.Semantic.DeepEqual(d.Spec.Selector, other.Spec.Selector) {
			return "has the same selector as deployment/" + other.Name +
					": services, budgets and autoscalers that go by it take the pods of both",
				"give each a label of its own; a selector can't be changed, so make one of them anew"
		}
	}
	return "", ""
}

func restOfReplicaSet(w *converge.World, r *appsv1.ReplicaSet) (string, string) {
	if ptr.Deref(r.Spec.Replicas, 1) != 0 {
		return "", ""
	}
	for _, o := range r.OwnerReferences {
		if o.Kind == "Deployment" {
			return "is scaled to 0: it is an older revision of deployment/" + o.Name + ", kept for a rollout undo", ""
		}
	}
	return "is scaled to 0", "kubectl scale replicaset " + r.Name + " -n " + r.Namespace + " --replicas=1"
}

func restOfStatefulSet(w *converge.World, s *appsv1.StatefulSet) (string, string) {
	if ptr.Deref(s.Spec.Replicas, 1) == 0 {
		return "is scaled to 0", "kubectl scale statefulset " + s.Name + " -n " + s.Namespace + " --replicas=1"
	}
	var old []string
	for _, p := range resource.Owned(w.Read, kinds.Pods, s) {
		if rev := p.Labels[appsv1.ControllerRevisionHashLabelKey]; s.Status.UpdateRevision != "" && rev != "" &&
			rev != s.Status.UpdateRevision {
			old = append(old, p.Name)
		}
	}
	if n := s.Spec.ServiceName; len(old) == 0 && n != "" && w.Sees(kinds.Services, s.Namespace) &&
		resource.Get(w.Read, kinds.Services, s.Namespace, n) == nil {
		return "names the service " + n + ", which does not exist: its pods have no names in the DNS",
			"make it, and have it select the pods: kubectl create service clusterip " + n + " -n " + s.Namespace + " --clusterip=None"
	}
	if len(old) == 0 {
		return "", ""
	}
	slices.Sort(old)
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return "has " + words.Count(len(old), "pod") + " of an older template (" + words.List(old,
				3) + "): its updateStrategy is OnDelete, so each gets the newer one when somebody deletes it",
			"kubectl delete pod " + old[len(old)-1] + " -n " + s.Namespace
	}
	return fmt.Sprintf("keeps %s of an older template (%s): its partition is %d", words.Count(len(old), "pod"), words.List(old, 3),
			causes.Kept(s)),
		"kubectl patch statefulset " + s.Name + " -n " + s.Namespace + ` -p '{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}'`
}

func restOfDaemonSet(w *converge.World, d *appsv1.DaemonSet) (string, string) {
	if n := d.Status.NumberMisscheduled; n > 0 {
		return fmt.Sprintf("has %s on nodes where it is not to run (any more): they stay as long as they tolerate the nodes' taints",
			words.Count(int(n), "pod")), "kubectl get pods -n " + d.Namespace + " -o wide"
	}
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType &&
		d.Status.UpdatedNumberScheduled < d.Status.DesiredNumberScheduled {
		return fmt.Sprintf(
			"has %s of an older template: its updateStrategy is OnDelete, so each gets the newer one when somebody deletes it",
			words.Count(int(d.Status.DesiredNumberScheduled-d.Status.UpdatedNumberScheduled), "pod")), ""
	}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxSurge != nil && r.MaxSurge.String() != "0" {
		for _, p := range resource.Owned(w.Read, kinds.Pods, d) {
			if s := w.Explain(kinds.Pods, p); s != nil {
				return "keeps the older pod of a node until the newer one is ready (maxSurge), and one is not: " + s.Gap().Verdict, ""
			}
		}
	}
	tpl := &corev1.Pod{Spec: d.Spec.Template.Spec}
	want := nodeaffinity.GetRequiredNodeAffinity(tpl)
	nodes := resource.List(w.Read, kinds.Nodes, "")
	var off []string
	taint, fit, patch := "", 0, ""
	for _, n := range nodes {
		if ok, err := want.Match(n); err != nil || !ok {
			continue
		}
		fit++
		for i := range n.Spec.Taints {
			t := &n.Spec.Taints[i]
			if t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key,
				"node.kubernetes.io/") && !slices.ContainsFunc(tpl.Spec.Tolerations,
				func(o corev1.Toleration) bool { return causes.Tolerates(&o, t) }) {
				off, taint, patch = append(off, n.Name), t.ToString(), causes.Tolerate(&tpl.Spec, t)
				break
			}
		}
	}
	switch {
	case len(off) > 0:
		return "is kept off " + words.List(off, 3) + " by the taint " + taint,
			"if it is to run there, give its pods a toleration: kubectl patch daemonset " + d.Name + " -n " + d.Namespace + " -p '" + patch + "'"
	case len(nodes) > 0 && fit == 0 && d.Status.DesiredNumberScheduled == 0:
		says := "runs nowhere: no node has the labels that its pod template asks for (" + asked(tpl) + ")"
		if near, patch := causes.Reselect(w, &tpl.Spec); near != "" {
			return says + near, "if that is meant: kubectl patch daemonset " + d.Name + " -n " + d.Namespace + " -p '" + patch + "'"
		}
		return says, "kubectl get nodes --show-labels"
	}
	return "", ""
}

// asked words which nodes a pod asks for.
func asked(p *corev1.Pod) string {
	if len(p.Spec.NodeSelector) > 0 {
		return labels.Set(p.Spec.NodeSelector).String()
	}
	return "its node affinity"
}

func restOfJob(w *converge.World, j *batchv1.Job) (string, string) {
	switch {
	case ptr.Deref(j.Spec.Suspend, false):
		if queue := j.Labels["kueue.x-k8s.io/queue-name"]; queue != "" {
			k := general.KindNamed(w, "kueue.x-k8s.io", "LocalQueue")
			if k != nil && w.Sees(k, j.Namespace) && w.Read.Lookup(k, j.Namespace, queue) == nil {
				return "is suspended: it names the queue " + queue + " of Kueue, which does not exist", "kubectl get localqueues -n " +
					j.Namespace
			}
			says := "is suspended: Kueue starts it when its queue " + queue + " has room for it"
			if told, advice := causes.Queued(w, j); told != "" {
				if says += "; its Workload says: " + told; advice != "" {
					return says, advice
				}
				if s, ok := words.Meaning(words.ByGroup, "kueue.x-k8s.io/workload "+strings.ToLower(told)); ok {
					return says, s.Advice()
				}
			}
			return says, "kubectl get workloads -n " + j.Namespace
		}
		return "is suspended", "kubectl patch job " + j.Name + " -n " + j.Namespace + ` -p '{"spec":{"suspend":false}}'`
	case slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuccessCriteriaMet }) &&
		j.Status.CompletionTime == nil && !slices.ContainsFunc(j.Status.Conditions,
		func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobComplete }):
		return fmt.Sprintf("has met its success policy, and is complete when its other pods have stopped (%d are stopping)",
			ptr.Deref(j.Status.Terminating, 0)), "kubectl get pods -n " + j.Namespace + " -l batch.kubernetes.io/job-name=" + j.Name
	case j.Status.CompletionTime == nil && ptr.Deref(j.Spec.Parallelism, 1) == 0:
		return "starts no pod: its parallelism is 0", "kubectl patch job " + j.Name + " -n " + j.Namespace +
			` -p '{"spec":{"parallelism":1}}'`
	}
	return "", ""
}

func restOfCronJob(w *converge.World, c *batchv1.CronJob) (string, string) {
	if ptr.Deref(c.Spec.Suspend, false) {
		return "is suspended: it starts no job", "kubectl patch cronjob " + c.Name + " -n " + c.Namespace +
			` -p '{"spec":{"suspend":false}}'`
	}
	if j := health.LatestJob(w, c); j != nil && w.Now.Sub(j.CreationTimestamp.Time) > time.Minute {
		if s := w.Explain(kinds.Jobs, j); s != nil {
			return "starts its jobs when they are due, and the last one does not get done: " + s.Gap().Verdict,
				"kubectl describe job " + j.Name + " -n " + j.Namespace
		}
	}
	return "", ""
}

func restOfAutoscaler(_ *converge.World, h *autoscalingv2.HorizontalPodAutoscaler) (string, string) {
	t := h.Spec.ScaleTargetRef
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Reason == "ScalingDisabled" {
			return "is disabled: " + strings.ToLower(t.Kind) + "/" + t.Name + " is scaled to 0",
				"kubectl scale " + strings.ToLower(t.Kind) + " " + t.Name + " -n " + h.Namespace + " --replicas=1"
		}
	}
	if b := h.Spec.Behavior; b != nil {
		for _, way := range []struct {
			name  string
			rules *autoscalingv2.HPAScalingRules
		}{{"up", b.ScaleUp}, {"down", b.ScaleDown}} {
			if way.rules != nil && ptr.Deref(way.rules.SelectPolicy, "") == autoscalingv2.DisabledPolicySelect {
				field := map[string]string{"up": "scaleUp", "down": "scaleDown"}[way.name]
				return "may not scale " + way.name + ": its behavior." + field + ".selectPolicy is Disabled",
					"kubectl patch hpa " + h.Name + " -n " + h.Namespace +
						` -p '{"spec":{"behavior":{"` + field + `":{"selectPolicy":"Max"}}}}'`
			}
		}
	}
	return "", ""
}

// restOfBudget says of a budget that lets no pod go why it does not. One that can never do so has a gap.
func restOfBudget(w *converge.World, b *policyv1.PodDisruptionBudget) (string, string) {
	if b.Status.DisruptionsAllowed > 0 || b.Status.ObservedGeneration < b.Generation {
		return "", ""
	}
	pods := health.Guarded(w, b)
	if len(pods) == 0 {
		like := general.Like{}
		if b.Spec.Selector != nil {
			like, _ = general.Likely(w, []resource.Kind{kinds.Pods}, b.Namespace, b.Spec.Selector.MatchLabels)
		}
		return "guards nothing: no pod in namespace " + b.Namespace + " has the labels that its selector asks for",
			cmp.Or(like.Corrected(converge.RefTo(kinds.PodDisruptionBudgets, b), "spec", "selector", "matchLabels"),
				"kubectl get pods --show-labels -n "+b.Namespace)
	}
	for _, p := range pods {
		if s := w.Explain(kinds.Pods, p); s != nil {
			return fmt.Sprintf("lets no pod go: %d of its pods are healthy and %d must be; pod/%s %s", b.Status.CurrentHealthy,
					b.Status.DesiredHealthy, p.Name, s.Says),
				"kubectl describe pod " + p.Name + " -n " + p.Namespace
		}
	}
	return fmt.Sprintf("lets no pod go: %d of its pods are healthy and %d must be", b.Status.CurrentHealthy, b.Status.DesiredHealthy), ""
}

func restOfNode(w *converge.World, n *corev1.Node) (string, string) {
	if n.Spec.Unschedulable {
		advice := "kubectl uncordon " + n.Name
		if more := causes.LetGo(w, n); more != "" {
			advice = "if it is to be drained, have one pod more elsewhere: " + more
		}
		return strings.TrimSuffix("is cordoned: it gets no new pods"+bareOn(w, n)+"; "+causes.KeptThere(w, n), "; "), advice
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			if s, ok := words.Meaning(causes.Taints, t.Key); ok {
				return "gets only pods that tolerate its taint " + t.ToString() + ", which a program gave it", s.Advice()
			}
			return "gets only pods that tolerate its taint " + t.ToString(), "kubectl taint nodes " + n.Name + " " + t.ToString() + "-"
		}
	}
	if r := causes.Unapproved(w, n.Name); r != nil {
		return "asks for a serving certificate, which nobody has approved: logs, exec and figures of its pods may not be had until then; " +
			"csr/" + r.Name + " tells why", "kubectl certificate approve " + r.Name
	}
	return "", ""
}

// bareOn names the pods of a node that nobody would make anew: a drain refuses to delete them.
func bareOn(w *converge.World, n *corev1.Node) string {
	var bare []string
	for _, p := range resource.List(w.Read, kinds.Pods, "") {
		if p.Spec.NodeName == n.Name && len(p.OwnerReferences) == 0 && p.Annotations[corev1.MirrorPodAnnotationKey] == "" &&
			p.DeletionTimestamp == nil && !core.Terminal(p) {
			bare = append(bare, p.Namespace+": pod/"+p.Name)
		}
	}
	if len(bare) == 0 {
		return ""
	}
	slices.Sort(bare)
	return "; a drain leaves what no controller would make anew, unless it is told --force: " + words.List(bare, 3)
}

func restOfPod(_ *converge.World, p *corev1.Pod) (string, string) {
	if p.Status.Phase == corev1.PodSucceeded {
		return "has ended with success", ""
	}
	return "", ""
}

func restOfClaim(w *converge.World, c *corev1.PersistentVolumeClaim) (string, string) {
	if c.Status.Phase == corev1.ClaimBound && len(health.Users(w, c)) == 0 && w.Sees(kinds.Pods, c.Namespace) {
		for _, s := range resource.List(w.Read, kinds.StatefulSets, c.Namespace) {
			if pod := "-" + s.Name + "-"; strings.Contains(c.Name, pod) && len(s.Spec.VolumeClaimTemplates) > 0 {
				return fmt.Sprintf("is kept with what is on it for a pod that statefulset/%s, scaled to %d, does not have", s.Name,
					ptr.Deref(s.Spec.Replicas, 1)), "if nobody needs it any more: kubectl delete pvc " + c.Name + " -n " + c.Namespace
			}
		}
		return "has its volume, and no pod uses it now", ""
	}
	if health.BindsLate(w, c) && c.Status.Phase != corev1.ClaimBound && len(health.Users(w, c)) == 0 {
		says := "gets its volume when a pod uses it: the class " + core.ClaimClass(c) +
			" is of volumeBindingMode WaitForFirstConsumer, and no pod does"
		if e := w.Warning(c.UID, "ProvisioningFailed"); e != nil {
			return says + "; the last time that one did, it failed: " + words.OneLine(e.Message), "kubectl describe pvc " + c.Name + " -n " +
				c.Namespace
		}
		return says, ""
	}
	return "", ""
}

func restOfVolume(_ *converge.World, v *corev1.PersistentVolume) (string, string) {
	if v.Status.Phase == corev1.VolumeReleased && v.Spec.ClaimRef != nil && (v.Annotations[localvolume.Node] == "" ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete) {
		return "is kept with what is on it for the claim " + v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name +
				", which was deleted: its reclaim policy is " + string(v.Spec.PersistentVolumeReclaimPolicy),
			"if what is on it may be used by another claim: kubectl patch pv " + v.Name + ` -p '{"spec":{"claimRef":null}}'`
	}
	return "", ""
}
