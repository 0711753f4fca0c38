package causes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// autoscalers are the ways in which an autoscaler can't do its work.
func autoscalers() []converge.Situation {
	of := []resource.Kind{kinds.HorizontalPodAutoscalers}
	return []converge.Situation{
		{Name: "ScaleTargetMissing", Of: of, See: autoscaler(autoscalingv2.AbleToScale, scaleTargetMissing)},
		{Name: "AutoscalersCollide", Of: of, See: autoscaler(autoscalingv2.ScalingActive, autoscalersCollide)},
		{Name: "MetricsMissing", Of: of, See: autoscaler(autoscalingv2.ScalingActive, metricsMissing)},
		{Name: "AutoscalerAtMax", Of: of, See: autoscalerAtMax},
	}
}

// autoscaler is the situation of an autoscaler whose condition typ is False. Reason and message of that condition are all that its loop
// says of an error: what see makes of them is a Finding, and the message stays below it word for word.
func autoscaler(typ autoscalingv2.HorizontalPodAutoscalerConditionType, see func(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler,
	reason, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		h := l.Obj.(*autoscalingv2.HorizontalPodAutoscaler)
		for _, c := range h.Status.Conditions {
			if c.Type == typ && c.Status == corev1.ConditionFalse {
				f := see(l, h, c.Reason, c.Message)
				if f != nil && f.Error == nil {
					f.Error = general.TextOnly(c.Message)
				}
				return f
			}
		}
		return nil
	}
}

// scaleTargetMissing is AbleToScale=False. The loop says only what reading the target's scale gave, and a 404 is the answer both to a
// kind without a scale and to a name that nobody has: which of the two it is, is looked up.
func scaleTargetMissing(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, reason, text string) *converge.Finding {
	t := h.Spec.ScaleTargetRef
	f := &converge.Finding{Says: "can't scale " + strings.ToLower(t.Kind) + "/" + t.Name + ": " + text, State: converge.Blocked,
		Waits: converge.ForName("Object", strings.ToLower(t.Kind)+"/"+t.Name),
		Next:  converge.Does(l.Owner, "looks again every 15 s"), Advice: []string{"correct spec.scaleTargetRef, or create what it names"}}
	k, ok := l.KindOf(schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
	switch {
	case !ok:
		for _, k := range l.Kinds.All() {
			if i := k.Info(); i.GVK.Kind == t.Kind && scales(k) && l.Read.Lookup(k, h.Namespace, t.Name) != nil {
				version := i.GVK.GroupVersion().String()
				f.Says += "; it is of " + version + " here"
				f.Advice = []string{"name that version: " + converge.Merged(converge.RefTo(l.Kind, h), version, "spec", "scaleTargetRef", "apiVersion")}
			}
		}
	case strings.Contains(text, "the server could not find the requested resource") && !scales(k): // what 404 of its scale means
		f.Says = "can't scale " + strings.ToLower(t.Kind) + "/" + t.Name + ": a " + t.Kind + " has no number of replicas"
		f.Advice = []string{"have spec.scaleTargetRef name what has one, as a Deployment or a StatefulSet: kubectl edit hpa " +
			converge.Called(l)}
	case l.Read.Lookup(k, h.Namespace, t.Name) == nil:
		var names []string
		for obj := range l.Read.Each(k, h.Namespace) {
			names = append(names, obj.GetName())
		}
		if meant := words.Between(strict.Meant(t.Name, names), "did you mean ", "?"); meant != "" {
			f.Says += "; there is " + strings.ToLower(t.Kind) + "/" + meant
			f.Advice = []string{"if " + meant + " is meant: kubectl patch hpa " + converge.Called(l) +
				` -p '{"spec":{"scaleTargetRef":{"name":"` + meant + `"}}}'`}
		}
	}
	return f
}

// scales says that a kind has the subresource scale.
func scales(k resource.Kind) bool {
	return slices.ContainsFunc(k.Info().Subs, func(s resource.SubInfo) bool { return s.Name == "scale" })
}

// autoscalersCollide: another autoscaler counts the same pods.
func autoscalersCollide(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, reason, text string) *converge.Finding {
	if reason != "AmbiguousSelector" {
		return nil
	}
	f := &converge.Finding{Says: "scales pods that another autoscaler scales too", Owner: converge.Person, State: converge.Blocked,
		Waits:  l.Field("spec.scaleTargetRef"),
		Next:   converge.PersonDoes("leaves the pods to one of them"),
		Advice: []string{"delete one of the autoscalers, or let the targets select different pods"}}
	_, names, _ := strings.Cut(text, "HPA") // multiple HPAs: [a/one a/two]; since 1.37 more than one HPA (e.g. [a/one a/two])
	_, names, _ = strings.Cut(names, "[")
	names, _, _ = strings.Cut(names, "]")
	for other := range strings.FieldsSeq(strings.ReplaceAll(names, ",", " ")) {
		if other = strings.TrimPrefix(other, h.Namespace+"/"); other != h.Name {
			f.Says = "scales pods that horizontalpodautoscaler/" + other + " scales too"
			f.Advice = []string{"have one of them go by all metrics, and delete the other: kubectl delete hpa " + younger(l, h, other) +
				" -n " + h.Namespace}
		}
	}
	return f
}

// younger is the one of two autoscalers that was made last; of two of one age, that which comes later by its name.
func younger(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, name string) string {
	other := resource.Get(l.Read, kinds.HorizontalPodAutoscalers, h.Namespace, name)
	if other == nil || !h.CreationTimestamp.Equal(&other.CreationTimestamp) {
		if other == nil || other.CreationTimestamp.Before(&h.CreationTimestamp) {
			return h.Name
		}
		return name
	}
	return max(h.Name, name)
}

// autoscalerAtMax is a limit that was set on purpose: a gap all the same, since the metrics ask for more than anybody will make.
func autoscalerAtMax(l *converge.Look) *converge.Finding {
	h := l.Obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if health.WantsMore(h) == nil {
		return nil
	}
	ask, to := "more", 2*h.Spec.MaxReplicas
	if n := askedFor(h); n > h.Spec.MaxReplicas {
		ask, to = strconv.Itoa(int(n)), n
	}
	f := &converge.Finding{Says: fmt.Sprintf("may have no more than %s, and its metrics ask for %s",
		words.Count(int(h.Spec.MaxReplicas), "replica"), ask), Owner: converge.Person, State: converge.Blocked,
		Waits: l.Field("spec.maxReplicas"), Next: converge.PersonDoes("raises maxReplicas, or lives with it"),
		Advice: []string{fmt.Sprintf("kubectl patch hpa %s -n %s -p '{\"spec\":{\"maxReplicas\":%d}}'", h.Name, h.Namespace,
			to), "or give each pod more to work with: higher requests"}}
	if bad := targetOf(l, h); bad != nil { // more would not help
		f.Below, f.State = bad, converge.Waiting
	}
	return f
}

// askedFor are the replicas that the metrics of an autoscaler ask for, by the shares of requests that it was last told; 0: it has no such.
func askedFor(h *autoscalingv2.HorizontalPodAutoscaler) (most int32) {
	for i := range h.Spec.Metrics {
		want := h.Spec.Metrics[i].Resource
		for j := range h.Status.CurrentMetrics {
			has := h.Status.CurrentMetrics[j].Resource
			if want == nil || has == nil || want.Name != has.Name || ptr.Deref(want.Target.AverageUtilization, 0) < 1 {
				continue
			}
			target := *want.Target.AverageUtilization
			most = max(most, (h.Status.CurrentReplicas*ptr.Deref(has.Current.AverageUtilization, 0)+target-1)/target)
		}
	}
	return most
}

// targetOf explains the object that an autoscaler scales, if that is not well.
func targetOf(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler) []converge.Ref {
	t := h.Spec.ScaleTargetRef
	k, ok := l.KindOf(schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
	if !ok {
		return nil
	}
	obj := l.Read.Lookup(k, h.Namespace, t.Name)
	if obj == nil || l.Health(k, obj).Converged() {
		return nil
	}
	return []converge.Ref{converge.RefTo(k, obj)}
}

// byAdapter has the advice for a metric that comes from an adapter: there is none, or it does not have the metric.
func byAdapter(l *converge.Look, f *converge.Finding, text string) {
	if strings.Contains(text, "rpc error") {
		f.Advice = []string{"see to what the adapter says, which answers: kubectl get apiservices"}
		return
	}
	for _, kind := range []string{"custom", "external"} {
		if strings.Contains(text, kind+" metric") {
			name := "v1beta1." + kind + ".metrics.k8s.io"
			f.Waits, f.Advice = converge.ForName("APIService", name),
				[]string{"install an adapter that serves " + kind + " metrics (apiservice/" + name + "), or correct spec.metrics"}
			if !l.Sees(kinds.APIServices) {
				f.Advice[0] = "see whether an adapter serves " + kind + " metrics, or correct spec.metrics: kubectl get apiservice " + name
			}
			if strings.Contains(text, "could not find the metric") {
				f.Advice[0] = "have the adapter that answers for " + name +
					" make that metric, or correct spec.metrics: kubectl get apiservices"
			}
		}
	}
}

// metricsMissing is ScalingActive=False. One message stands for three APIs of metrics, for requests that pods lack and for pods that are
// not ready: the text decides. Pods that are ill are named before metrics.k8s.io is blamed, which has no figures of such pods; an
// APIService that is down lies below whatever else is said.
func metricsMissing(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, reason, text string) *converge.Finding {
	f := &converge.Finding{Says: "gets no metrics: " + text, State: converge.Blocked, Waits: converge.ForName("APIService",
		"v1beta1.metrics.k8s.io"),
		Next: converge.Does(l.Owner, "asks again every 15 s"),
		Advice: []string{"look whether node agents tell what pods use, by way of metrics.k8s.io: kubectl top pods -n " + h.Namespace,
			"a target in percent needs requests in the pod template"}}
	if m := noContainer.FindStringSubmatch(text); m != nil {
		containerUnmeasured(l, h, f, m[1])
		return f
	}
	if strings.Contains(text, "missing request") {
		requestMissing(l, h, f, text)
		return f
	}
	if bad := targetOf(l, h); bad != nil && (strings.Contains(text, "resource metrics API") || strings.Contains(text, "might be unready")) {
		f.Says, f.Below = "gets no metrics of its target's pods, which are not well", bad
		return f
	}
	byAdapter(l, f, text)
	if own, _ := l.Runs(l.Owner); !own && strings.Contains(text, "could not find the requested resource") &&
		l.Sees(kinds.APIServices, "") &&
		apiServiceOf(l.Read, "metrics.k8s.io") == nil && strings.Contains(text, "pods.metrics.k8s.io") {
		f.Says = "gets no metrics: no server serves metrics.k8s.io"
		f.Error = general.TextOnly(text)
		f.Advice = []string{"install metrics-server, which does: it is no part of Kubernetes itself"}
		f.NoCommand = "its project's manifest installs it: what is fetched from elsewhere is up to who runs the cluster"
	}
	for _, m := range h.Spec.Metrics {
		if m.Object == nil || !strings.Contains(text, m.Object.Metric.Name) {
			continue
		}
		d := m.Object.DescribedObject
		if k, ok := l.KindOf(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)); ok && l.Sees(k, h.Namespace) &&
			l.Read.Lookup(k, h.Namespace, d.Name) == nil {
			r := converge.Ref{Kind: k, NS: h.Namespace, Name: d.Name}
			f.Says = "gets no metric " + m.Object.Metric.Name + " of " + strings.ToLower(d.Kind) + "/" + d.Name + ", which does not exist"
			f.Waits, f.Error, f.Advice = converge.On("Object", r, ""), general.TextOnly(text),
				[]string{"create it, or correct describedObject in spec.metrics"}
		}
	}
	if o := metav1.GetControllerOfNoCopy(h); o != nil { // as KEDA's
		if k, ok := l.KindOf(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)); ok {
			if up := l.Read.Lookup(k, h.Namespace, o.Name); up != nil && !l.Health(k, up).Converged() {
				f.Below = []converge.Ref{converge.RefTo(k, up)}
			}
		}
	}
	for _, group := range []string{"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"} {
		if a := apiServiceOf(l.Read, group); a != nil && !l.Health(kinds.APIServices, a).Converged() {
			f.Below = []converge.Ref{converge.RefTo(kinds.APIServices, a)}
		}
	}
	return f
}

// containerUnmeasured: the target goes by one container, and there are no figures of it.
func containerUnmeasured(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, f *converge.Finding, name string) {
	f.Says = "is to go by the container " + name + ", which is in no metrics of its pods"
	f.Waits, f.Next = l.Field("spec.metrics"), converge.PersonDoes("names a container of the pods in spec.metrics")
	f.Advice = []string{"kubectl edit hpa " + converge.Called(l)}
	if k, ok := l.KindOf(schema.FromAPIVersionAndKind(h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind)); ok {
		if has := containersOf(l.Read.Lookup(k, h.Namespace, h.Spec.ScaleTargetRef.Name)); len(has) > 0 && !slices.Contains(has, name) {
			f.Says = "is to go by the container " + name + ", which its target's pod template does not have: it has " +
				words.List(has, 4)
			for i, m := range h.Spec.Metrics {
				if m.ContainerResource != nil && m.ContainerResource.Container == name {
					at := fmt.Sprintf("/spec/metrics/%d/containerResource/container", i)
					f.Advice = converge.Choices(name, has, func(container string) string {
						return converge.Patched(converge.RefTo(l.Kind, h), converge.Put(at, container))
					})
				}
			}
		} else if len(has) > 0 {
			f.Next = converge.Does(l.Owner, "goes on when the container runs and its node tells what it uses")
			f.Advice = []string{"see what is told: kubectl top pods --containers -n " + h.Namespace}
		}
	}
}

// requestMissing: the target is in percent of what the pods ask for, and a container of theirs asks for nothing.
func requestMissing(l *converge.Look, h *autoscalingv2.HorizontalPodAutoscaler, f *converge.Finding, text string) {
	f.Waits, f.Advice = l.Field("spec.metrics"),
		[]string{"set requests for the resource in the target's pod template"}
	k, ok := l.KindOf(schema.FromAPIVersionAndKind(h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind))
	if m := unasked.FindStringSubmatch(text); m != nil && ok {
		target := l.Read.Lookup(k, h.Namespace, h.Spec.ScaleTargetRef.Name)
		has := containersOf(target)
		if slices.Contains(has, m[2]) {
			f.Advice[0] = resources(&converge.Look{World: l.World, Kind: k, Obj: target}, "give container "+m[2]+" of "+
				new(converge.ObjectOf(k, target)).Short()+" a request of "+m[1]+", as much as it needs", m[2],
				m[1]+"="+usual[corev1.ResourceName(m[1])], "")
		}
		if len(has) > 0 && !slices.Contains(has, m[2]) {
			f.Says += "; the pod template does not have that container: a webhook adds it"
			f.Advice = []string{"have its webhook give it requests, as by the annotations sidecar.istio.io/proxyCPU or " +
				"config.linkerd.io/proxy-cpu-request, or go by one container: type ContainerResource in spec.metrics"}
		}
	}
}

// noContainer finds the container that an autoscaler is to go by and that is not there.
var noContainer = pattern.New(`container (\S+) not present in metrics`)

// unasked finds the container without requests.
var unasked = pattern.New(`missing request for (\S+) (?:in|on) container (\S+) `)

// containersOf names the containers of a workload's pod template.
func containersOf(obj resource.Object) (names []string) {
	if t := health.TemplateOf(obj); t != nil {
		for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
			names = append(names, c.Name)
		}
	}
	return names
}
