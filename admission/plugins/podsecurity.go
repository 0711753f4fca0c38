package plugins

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/kloop-dev/kloop/admission"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// How many existing pods, and for how long, are checked when a namespace becomes stricter.
const (
	strictPods = 3000
	strictTime = time.Second
)

// podSecurity holds pods to the level that their namespace's labels name. Of objects that contain a pod
// template it only warns.
type podSecurity struct {
	checks   policy.Evaluator
	exempt   admission.PodSecurity
	defaults api.Policy
}

// checks are the library's, of all versions: made once for all servers of a process.
var checks = sync.OnceValue(func() policy.Evaluator {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("the library's own pod security checks are wrong: %v", err))
	}
	return e
})

func newPodSecurity(c admission.PodSecurity) podSecurity {
	free := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	// What can't be read counts as the strictest level, as it does of namespaces.
	defaults, _ := api.PolicyToEvaluate(c.Defaults, api.Policy{Enforce: free, Audit: free, Warn: free})
	return podSecurity{checks(), c, defaults}
}

// exempted says that a request is not judged, and notes it.
func (p podSecurity) exempted(r *admission.Request, spec *corev1.PodSpec) bool {
	why := ""
	switch {
	case slices.Contains(p.exempt.Namespaces, r.Namespace):
		why = "namespace"
	case r.User != nil && slices.Contains(p.exempt.Users, r.User.Name):
		why = "user"
	case spec.RuntimeClassName != nil && slices.Contains(p.exempt.RuntimeClasses, *spec.RuntimeClassName):
		why = "runtimeClass"
	default:
		return false
	}
	r.Note("pod-security.kubernetes.io/"+api.ExemptionReasonAnnotationKey, why)
	return true
}

func (p podSecurity) validate(ctx context.Context, r *admission.Request) error {
	switch o := r.Object.(type) {
	case *corev1.Namespace:
		if r.On("", "namespaces", admission.Create, admission.Update) {
			return p.namespace(ctx, r, o)
		}
	case *corev1.Pod:
		if r.On("", "pods", admission.Create, admission.Update) || r.Of("", "pods", admission.Update) &&
			(r.Sub == "ephemeralcontainers" || r.Sub == "resize") {
			return p.pod(ctx, r, o)
		}
	default:
		if r.Sub == "" && (r.Op == admission.Create || r.Op == admission.Update) {
			if t := templateOf(r.Object); t != nil {
				return p.judge(ctx, r, &t.ObjectMeta, &t.Spec, false)
			}
		}
	}
	return nil
}

func (p podSecurity) pod(ctx context.Context, r *admission.Request, pod *corev1.Pod) error {
	if old, ok := r.Old.(*corev1.Pod); ok && r.Op == admission.Update && sameImages(pod, old) {
		return nil
	}
	return p.judge(ctx, r, &pod.ObjectMeta, &pod.Spec, true)
}

// sameImages tells whether nothing changed that a pod could break the rules with.
func sameImages(a, b *corev1.Pod) bool {
	same := func(x, y []corev1.Container) bool {
		return slices.EqualFunc(x, y, func(p, q corev1.Container) bool { return p.Image == q.Image })
	}
	if !same(a.Spec.Containers, b.Spec.Containers) || !same(a.Spec.InitContainers, b.Spec.InitContainers) {
		return false
	}
	for _, c := range a.Spec.EphemeralContainers {
		there := func(o corev1.EphemeralContainer) bool {
			return o.Name == c.Name && o.Image == c.Image
		}
		if !slices.ContainsFunc(b.Spec.EphemeralContainers, there) {
			return false
		}
	}
	return true
}

func templateOf(o resource.Object) *corev1.PodTemplateSpec {
	switch w := o.(type) {
	case *corev1.PodTemplate:
		return &w.Template
	case *corev1.ReplicationController:
		return w.Spec.Template
	case *appsv1.ReplicaSet:
		return &w.Spec.Template
	case *appsv1.Deployment:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *batchv1.Job:
		return &w.Spec.Template
	case *batchv1.CronJob:
		return &w.Spec.JobTemplate.Spec.Template
	}
	return nil
}

func (p podSecurity) judge(ctx context.Context, r *admission.Request, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	if p.exempted(r, spec) {
		return nil
	}
	ns, err := admission.NamespaceOf(ctx, r)
	if err != nil {
		if enforce {
			return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", r.Namespace))
		}
		return nil
	}
	levels, errs := api.PolicyToEvaluate(ns.Labels, p.defaults)
	if len(errs) == 0 && levels.FullyPrivileged() {
		if enforce {
			r.Note("pod-security.kubernetes.io/"+api.EnforcedPolicyAnnotationKey, levels.Enforce.String())
		}
		return nil
	}
	if len(errs) > 0 {
		r.Note("pod-security.kubernetes.io/error", fmt.Sprintf("Failed to parse policy: %v", errs.ToAggregate()))
	}
	check := func(lv api.LevelVersion) (string, bool) {
		res := policy.AggregateCheckResults(p.checks.EvaluatePod(lv, meta, spec))
		return fmt.Sprintf("violate PodSecurity %q: %s", lv.String(), res.ForbiddenDetail()), res.Allowed
	}
	if text, ok := check(levels.Audit); !ok {
		r.Note("pod-security.kubernetes.io/"+api.AuditViolationsAnnotationKey, "would "+text)
	}
	if enforce {
		r.Note("pod-security.kubernetes.io/"+api.EnforcedPolicyAnnotationKey, levels.Enforce.String())
		res := policy.AggregateCheckResults(p.checks.EvaluatePod(levels.Enforce, meta, spec))
		if !res.Allowed {
			return r.Refuse("violates PodSecurity %q: %s", levels.Enforce.String(), res.ForbiddenDetail())
		}
	}
	if text, ok := check(levels.Warn); !ok {
		r.Warning("would %s", text)
	}
	return nil
}

// namespace refuses labels that make no sense, and warns of pods that a stricter level would not let in.
func (p podSecurity) namespace(ctx context.Context, r *admission.Request, ns *corev1.Namespace) error {
	levels, errs := api.PolicyToEvaluate(ns.Labels, p.defaults)
	old, ok := r.Old.(*corev1.Namespace)
	if !ok || r.Op == admission.Create {
		if len(errs) > 0 {
			return apierrors.NewInvalid(core.Namespaces.Info().GVK.GroupKind(), ns.Name, errs)
		}
		p.warnExempt(r, ns, levels)
		return nil
	}
	before, oldErrs := api.PolicyToEvaluate(old.Labels, p.defaults)
	if len(errs) > 0 && !reflect.DeepEqual(errs, oldErrs) {
		return apierrors.NewInvalid(core.Namespaces.Info().GVK.GroupKind(), ns.Name, errs)
	}
	now, was := levels.Enforce, before.Enforce
	if now == was || now.Level == api.LevelPrivileged || now.Version == was.Version && api.CompareLevels(now.Level, was.Level) < 1 {
		return nil
	}
	if !p.warnExempt(r, ns, levels) {
		p.warnOfPods(ctx, r, ns.Name, now)
	}
	return nil
}

// warnExempt says whether the namespace is exempt, and warns when it asks for a level all the same.
func (p podSecurity) warnExempt(r *admission.Request, ns *corev1.Namespace, levels api.Policy) bool {
	if !slices.Contains(p.exempt.Namespaces, ns.Name) {
		return false
	}
	if levels.FullyPrivileged() || levels.Equivalent(&p.defaults) {
		return true
	}
	var set []string
	for _, m := range []struct {
		name, level, version string
		lv                   api.LevelVersion
	}{{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, levels.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, levels.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, levels.Warn}} {
		_, level := ns.Labels[m.level]
		_, version := ns.Labels[m.version]
		if m.lv.Level != api.LevelPrivileged && (level || version) {
			set = append(set, m.name+"="+m.lv.String())
		}
	}
	r.Warning("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", ns.Name, strings.Join(set, ", "))
	return true
}

// warnOfPods names the existing pods that break the level, one warning for each way to break it.
func (p podSecurity) warnOfPods(ctx context.Context, r *admission.Request, ns string, lv api.LevelVersion) {
	ctx, cancel := context.WithTimeout(ctx, strictTime)
	defer cancel()
	pods := resource.List(r.Read, core.Pods, ns)
	total, checked := len(pods), 0
	type found struct {
		first string
		count int
	}
	broken := map[string]*found{}
	for _, pod := range pods[:min(total, strictPods)] {
		if ctx.Err() != nil {
			break
		}
		checked++
		res := policy.AggregateCheckResults(p.checks.EvaluatePod(lv, &pod.ObjectMeta, &pod.Spec))
		if res.Allowed {
			continue
		}
		if f := broken[res.ForbiddenReason()]; f != nil {
			f.count++
			continue
		}
		broken[res.ForbiddenReason()] = &found{pod.Name, 1}
	}
	if checked < total {
		r.Warning("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, total)
	}
	if len(broken) == 0 {
		return
	}
	r.Warning("existing pods in namespace %q violate the new PodSecurity enforce level %q", ns, lv.String())
	var lines []string
	for why, f := range broken {
		switch f.count {
		case 1:
			lines = append(lines, fmt.Sprintf("%s: %s", f.first, why))
		case 2:
			lines = append(lines, fmt.Sprintf("%s (and 1 other pod): %s", f.first, why))
		default:
			lines = append(lines, fmt.Sprintf("%s (and %d other pods): %s", f.first, f.count-1, why))
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		r.Warning("%s", line)
	}
}
