package causes

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	kloop "github.com/kloop-dev/kloop/resource"
)

// What is wrong with a pod is changed where it comes from: in the template of the workload at the top, for whatever is changed below is
// made anew as it was.

// changeable is the workload whose template a person changes to have an object's pods come out otherwise; false: there is none, since
// nobody makes the pod, its maker's template can't be changed (of a Job), or another controller would change it back.
func changeable(w *converge.World, k kloop.Kind, obj kloop.Object) (top converge.Ref, ok bool) {
	if k, obj = w.Top(k, obj); obj == nil {
		return top, false
	}
	switch k {
	case kinds.Deployments, kinds.StatefulSets, kinds.DaemonSets, kinds.ReplicaSets, kinds.CronJobs:
		return converge.RefTo(k, obj), true
	}
	return top, false
}

// retemplate is advice with the command that patches the spec of the pod template by which an object's pods are made; without one where
// that can't be.
func retemplate(l *converge.Look, advice, spec string) string {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if !ok {
		if command := l.Remade(spec); command != "" {
			return advice + copying(l) + command
		}
		return atMaker(l, advice)
	}
	body := `{"spec":{"template":{"spec":` + spec + `}}}`
	if top.Kind == kinds.CronJobs {
		body = `{"spec":{"jobTemplate":` + body + `}}`
	}
	command := advice + ": kubectl patch " + top.Kind.Info().Singular + " " + top.Name + " -n " + top.NS + " -p '" + body + "'"
	if job := metav1.GetControllerOfNoCopy(l.Obj); top.Kind == kinds.CronJobs && l.Kind == kinds.Pods && job != nil { // its template stays
		command += " && kubectl delete job " + job.Name + " -n " + top.NS
	}
	return command
}

// inCopy stands before the command that makes what can't be changed anew.
const inCopy = ", in a copy, as it can't be changed: "

// copying is inCopy, with what a pod that runs loses by it.
func copying(l *converge.Look) string {
	p, is := l.Obj.(*corev1.Pod)
	if is && p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.EmptyDir != nil || v.Ephemeral != nil
	}) {
		return ", in a copy, as it can't be changed (what is in its emptyDir or ephemeral volumes is lost): "
	}
	return inCopy
}

// templateAbove is the pod template that a person changes, or has made anew with its job, or a pod that nobody makes in its place; nil:
// there is none.
func templateAbove(l *converge.Look) *corev1.PodTemplateSpec {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if !ok {
		switch _, obj := l.LastingTop(); obj := obj.(type) {
		case *batchv1.Job:
			return &obj.Spec.Template
		case *corev1.Pod:
			return &corev1.PodTemplateSpec{ObjectMeta: obj.ObjectMeta, Spec: obj.Spec}
		}
		return nil
	}
	obj := l.Read.Lookup(top.Kind, top.NS, top.Name)
	if c, is := obj.(*batchv1.CronJob); is {
		return &c.Spec.JobTemplate.Spec.Template
	}
	return health.TemplateOf(obj)
}

// relabelled is advice with the command that gives the pods of a workload a label; "": their template can't be changed.
func relabelled(l *converge.Look, advice, key, value string) string {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if !ok || top.Kind == kinds.CronJobs {
		return ""
	}
	return advice + ": kubectl patch " + top.Kind.Info().Singular + " " + top.Name + " -n " + top.NS +
		` -p '{"spec":{"template":{"metadata":{"labels":{"` + key + `":"` + value + `"}}}}}'`
}

// atMaker is advice on what an operator keeps, which is changed in the object that it is made for.
func atMaker(l *converge.Look, advice string) string {
	by := general.Maker(l)
	if by == nil {
		return advice
	}
	return advice + "; that is done at " + new(by.Object()).Short() + ", for which it is made: kubectl edit " +
		by.Kind.Info().GR().String() + " " + converge.Called(by)
}

// edited is advice with the command that edits the workload by which an object's pods are made, where what it should have is not known.
func edited(l *converge.Look, advice string) string {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if !ok {
		return atMaker(l, advice)
	}
	return advice + ": kubectl edit " + top.Kind.Info().Singular + " " + top.Name + " -n " + top.NS
}

// ofContainer is the part of a template's spec that has something of one container.
func ofContainer(t *corev1.PodSpec, name, part string) string {
	list := "containers"
	for i := range t.InitContainers {
		if t.InitContainers[i].Name == name {
			list = "initContainers"
		}
	}
	return `{"` + list + `":[{"name":"` + name + `",` + part + `}]}`
}

// resources is advice with the command that gives a container such requests and limits; container "": all of the template.
func resources(l *converge.Look, advice, container, requests, limits string) string {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	if t := templateAbove(l); !ok && t != nil {
		return retemplate(l, advice, amounting(t, container, requests, limits))
	} else if !ok {
		return amountsAtMaker(l, advice, container, map[string]string{"requests": requests, "limits": limits})
	}
	command := ": kubectl set resources " + top.Kind.Info().Singular + "/" + top.Name + " -n " + top.NS
	if container != "" {
		command += " -c " + container
	}
	if requests != "" {
		command += " --requests=" + requests
	}
	if limits != "" {
		command += " --limits=" + limits
	}
	return advice + command
}

// amountsAtMaker is advice with the command that changes amounts of a container in the object of an operator for which it is made: at the
// fields of their names that have what the pod has now.
func amountsAtMaker(l *converge.Look, advice, container string, want map[string]string) string {
	by, p := general.Maker(l), asPod(l)
	if by == nil || p == nil {
		return atMaker(l, advice)
	}
	var changes []converge.Change
	for of, list := range want {
		for one := range strings.SplitSeq(list, ",") {
			name, amount, _ := strings.Cut(one, "=")
			for i := range p.Spec.Containers {
				c := &p.Spec.Containers[i]
				lists := map[string]corev1.ResourceList{"requests": c.Resources.Requests, "limits": c.Resources.Limits}
				has := lists[of][corev1.ResourceName(name)]
				if container != "" && c.Name != container || has.IsZero() {
					continue
				}
				for _, path := range converge.Paths(by.Obj, func(path, text string) bool {
					q, err := kloop.ParseQuantity(text)
					return err == nil && q.Cmp(has) == 0 && strings.HasSuffix(path, "/"+of+"/"+name)
				}) {
					changes = append(changes, converge.Put(path, amount))
				}
			}
		}
	}
	if len(changes) == 0 || len(changes) > 4 {
		return atMaker(l, advice)
	}
	return advice + ", at " + new(by.Object()).Short() + ", for which it is made: " +
		converge.Patched(converge.RefTo(by.Kind, by.Obj), changes...)
}

// asPod is the pod that is looked at; nil: it is something else.
func asPod(l *converge.Look) *corev1.Pod {
	p, _ := l.Obj.(*corev1.Pod)
	return p
}

// amounting is the part of a template's spec that has a container, or all of them, ask for amounts: cpu=1,memory=1Gi.
func amounting(t *corev1.PodTemplateSpec, container, requests, limits string) string {
	amounts := func(list string) map[string]string {
		all := map[string]string{}
		for one := range strings.SplitSeq(list, ",") {
			if name, amount, is := strings.Cut(one, "="); is {
				all[name] = amount
			}
		}
		return all
	}
	type named struct {
		Name      string                       `json:"name"`
		Resources map[string]map[string]string `json:"resources"`
	}
	of := map[string][]named{}
	for field, list := range map[string][]corev1.Container{"initContainers": t.Spec.InitContainers, "containers": t.Spec.Containers} {
		for i := range list {
			if container == "" || container == list[i].Name {
				want := map[string]map[string]string{"requests": amounts(requests), "limits": amounts(limits)}
				maps.DeleteFunc(want, func(_ string, amounts map[string]string) bool { return len(amounts) == 0 })
				of[field] = append(of[field], named{list[i].Name, want})
			}
		}
	}
	return converge.JSON(of)
}

// usual are amounts to begin with, where nobody knows what a program needs.
var usual = map[corev1.ResourceName]string{corev1.ResourceCPU: "100m", corev1.ResourceMemory: "256Mi",
	corev1.ResourceEphemeralStorage: "1Gi"}

// mustSpecify finds what a quota wants to be said of which containers: limits.cpu for: app,web; older servers name no container.
var mustSpecify = pattern.New(`(requests|limits)?\.?(cpu|memory|ephemeral-storage)(?: for: ([a-z0-9,-]+))?`)

// quotaNeedsLimits is a quota of limits or requests in whose namespace a pod without them has no place.
func quotaNeedsLimits(l *converge.Look, text string) *converge.Finding {
	_, rest, is := strings.Cut(text, "failed quota: ")
	name, rest, _ := strings.Cut(rest, ":")
	if !is {
		return nil
	}
	_, wants, _ := strings.Cut(rest, "must specify ")
	sums, containers := map[string][]string{}, map[string]bool{}
	for _, m := range mustSpecify.FindAllStringSubmatch(wants, converge.MaxLooks) {
		of := m[1]
		if of == "" {
			of = "requests"
		}
		sums[of] = append(sums[of], m[2]+"="+usual[corev1.ResourceName(m[2])])
		for c := range strings.SplitSeq(m[3], ",") {
			containers[c] = true
		}
	}
	one := ""
	for c := range containers {
		if one = c; len(containers) > 1 {
			one = ""
			break
		}
	}
	f := &converge.Finding{Says: "is refused by the quota " + name + ", which wants every pod to say what it needs",
		Waits:  converge.On("Quota", general.Namespaced(l, kinds.ResourceQuotas, name), ""),
		Next:   converge.PersonDoes("sets the requests or limits that the quota counts"),
		Advice: []string{"set them in the pod template, or give the namespace a LimitRange with defaults"}}
	if len(sums) > 0 {
		f.Says += ": " + wants
	}
	if templateAbove(l) != nil && len(sums) > 0 {
		f.Advice = append([]string{resources(l, "set them in the pod template, to what it needs", one,
			strings.Join(sums["requests"], ","), strings.Join(sums["limits"], ","))}, append(anew(l),
			"or give the namespace a LimitRange with defaults")...)
	}
	return f
}

var (
	// bound finds what a LimitRange allows of a resource, and what was found: maximum cpu usage per Container is 2, but limit is 4.
	bound   = pattern.New(`(minimum|maximum) (\S+) usage per Container is (\S+?)[,.]`)
	ofClaim = pattern.New(`m(?:ini|axi)mum storage usage per PersistentVolumeClaim is (\S+?),`)
	ratio   = pattern.New(`(\S+) max limit to request ratio per Container is (\S+?),`)
)

// limitRange knows the errors of the plugin by what each says of a bound; the name of the LimitRange is in none of them.
func limitRange(l *converge.Look, text string) *converge.Finding {
	if !strings.Contains(text, " per Container is ") && !strings.Contains(text, " per Pod is ") && !strings.Contains(text,
		" per PersistentVolumeClaim is ") {
		return nil
	}
	f := &converge.Finding{Says: "is refused by a LimitRange: " + words.Between(text+"\x00", " is forbidden: ", "\x00"),
		Waits:  converge.ForName("Policy", "LimitRange"),
		Next:   converge.PersonDoes("changes the requests and limits, or the LimitRange"),
		Advice: []string{"see what is allowed: kubectl describe limitrange -n " + l.Obj.GetNamespace()}}
	if m := ofClaim.FindStringSubmatch(text); m != nil && l.Kind == kinds.StatefulSets {
		f.Advice = append([]string{"its volumeClaimTemplates can't be changed: make it anew, with the bound of " + m[1] +
			" kept there: kubectl delete statefulset " + converge.Called(l) + " --cascade=orphan"}, f.Advice...)
	}
	if fits := fitting(l, text); fits != "" {
		f.Advice = slices.Concat([]string{fits}, anew(l), f.Advice)
	}
	return f
}

// anew advises to have a job that a cron job made start over: what it has of the template stays as it was.
func anew(l *converge.Look) []string {
	if top, ok := changeable(l.World, l.Kind, l.Obj); !ok || l.Kind != kinds.Jobs || top.Kind != kinds.CronJobs {
		return nil
	}
	return []string{"then let that job go, which keeps what it was made with: kubectl delete job " + converge.Called(l)}
}

// fitting advises the amounts that a LimitRange takes, for the container that has others.
func fitting(l *converge.Look, text string) string {
	t := templateAbove(l)
	if t == nil {
		return ""
	}
	m, r := bound.FindStringSubmatch(text), ratio.FindStringSubmatch(text)
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		switch {
		case m != nil:
			allowed, err := kloop.ParseQuantity(m[3])
			res := corev1.ResourceName(m[2])
			request, limit := c.Resources.Requests[res], c.Resources.Limits[res]
			if err != nil {
				return ""
			}
			if m[1] == "maximum" && (limit.Cmp(allowed) > 0 || request.Cmp(allowed) > 0 || limit.IsZero()) {
				requests := ""
				if request.Cmp(allowed) > 0 {
					requests = m[2] + "=" + m[3]
				}
				return resources(l, "have container "+c.Name+" take no more than that", c.Name, requests, m[2]+"="+m[3])
			}
			if m[1] == "minimum" && request.Cmp(allowed) < 0 {
				limits := ""
				if !limit.IsZero() && limit.Cmp(allowed) < 0 {
					limits = m[2] + "=" + m[3]
				}
				return resources(l, "have container "+c.Name+" ask for as much", c.Name, m[2]+"="+m[3], limits)
			}
		case r != nil:
			most, err := kloop.ParseQuantity(r[2])
			res := corev1.ResourceName(r[1])
			request, limit := c.Resources.Requests[res], c.Resources.Limits[res]
			if err != nil || most.Value() < 1 || limit.MilliValue() <= request.MilliValue()*most.Value() {
				continue
			}
			least := resource.NewQuantity((limit.Value()+most.Value()-1)/most.Value(), limit.Format)
			if res == corev1.ResourceCPU {
				least = resource.NewMilliQuantity((limit.MilliValue()+most.Value()-1)/most.Value(), limit.Format)
			}
			return resources(l, "have container "+c.Name+" ask for more, so that its limit of "+limit.String()+" is no more than "+
				r[2]+" times that", c.Name, r[1]+"="+least.String(), "")
		}
	}
	return ""
}
