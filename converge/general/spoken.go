package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// What a controller speaks of is looked up: by kind and name, by namespace and name, by the kind alone.

var (
	// lasting finds words by which a server says that a field can't be changed once it is set.
	lasting = pattern.New(`is immutable|may not be changed once set|updates to \w+ spec for fields other than`)
	// counts finds messages that count how far something is, and say no more.
	counts = pattern.New(`^\d+ (of|/) \d+ [\w ]+$`)
	// SpokenLow finds objects of Kubernetes' own kinds in words that have the kind in small letters: job web-migrate.
	SpokenLow = pattern.New(`\b(job|pod|deployment|statefulset|daemonset|replicaset|service|persistentvolumeclaim)s?[ /]['"]?` +
		`(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)
	// placed finds what is named by its namespace and name after the word for its kind: TLS secret for client auth: web/ca.
	placed = pattern.New(`(?i)\b(secret|configmap|service|serviceaccount|persistentvolumeclaim)\b[^/.;]{0,60}?[ :'"]([a-z0-9-]+)/` +
		`([a-z0-9][a-z0-9.-]*[a-z0-9])(?:[^/\w-]|$)`)
	// inVain finds words by which somebody says that he looked for something in vain.
	inVain = pattern.New(`(?i)not (be )?found|failed to (locate|find|get|fetch|read)|n[o']t exist|no such|` +
		`(unable to|cannot|can't|could not) (find|get|fetch|read|locate)|\bmissing\b`)
)

// owned finds who has an object that another one wants to have.
var owned = pattern.New(`controlled by ([A-Z]\w+) ([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// managed finds what else manages what an object is to manage.
var managed = pattern.New(`already (?:managed|used|scaled) by (?:the |an? |another )?([A-Za-z]+) \\?['"]?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// rivals tells of two that want to own the same object.
func rivals(l *converge.Look, f *converge.Finding, message string) {
	if m := managed.FindStringSubmatch(message); m != nil {
		for _, k := range l.Kinds.All() {
			if i := k.Info(); !strings.EqualFold(i.GVK.Kind, m[1]) && !slices.Contains(i.Short, strings.ToLower(m[1])) ||
				l.Read.Lookup(k, l.Obj.GetNamespace(), m[2]) == nil {
				continue
			}
			r := converge.Ref{Kind: k, NS: l.Obj.GetNamespace(), Name: m[2]}
			f.Waits, f.State = converge.On("Object", r, ""), converge.Blocked
			f.Next = converge.PersonDoes("lets one of the two have it; %s goes on then", f.Owner)
			f.Advice = append([]string{"if this one is to have it, let the other go: kubectl delete " + r.Called()}, f.Advice...)
			return
		}
	}
	m := owned.FindStringSubmatch(message)
	if m == nil {
		return
	}
	for _, k := range mentions.Of(l).KindsBy(m[1], "", "", true) {
		for _, ns := range []string{l.Obj.GetNamespace(), ""} {
			if l.Read.Lookup(k, ns, m[2]) != nil {
				f.Advice = append([]string{"both want to own it: delete one of the two, or what made it: kubectl describe " +
					converge.Ref{Kind: k, NS: ns, Name: m[2]}.Called()}, f.Advice...)
				return
			}
		}
	}
}

// waitsFor has what a controller speaks of, which is not well, as the cause: it goes on when that is.
func waitsFor(f *converge.Finding, message string, bad ...converge.Ref) {
	f.Below, f.Told, f.State, f.Waits = bad, message, converge.Waiting, converge.On("Object", bad[0], "")
	f.Next = converge.Does(f.Owner, "goes on when that is well")
}

// lackPart has a person make what a part of the status names by kind and name and says is not present, as a ClusterServiceVersion's.
func lackPart(l *converge.Look, f *converge.Finding, tree map[string]any) bool {
	status, _ := tree["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) {
		list, _ := status[field].([]any)
		for _, item := range list {
			part, _ := item.(map[string]any)
			if name := words.String(part, "name"); words.String(part, "status") != "NotPresent" || name == "" {
				continue
			}
			k := KindNamed(l.World, words.String(part, "group"), words.String(part, "kind"))
			if k == nil || !l.Sees(k, l.Obj.GetNamespace()) || l.Read.Lookup(k, l.Obj.GetNamespace(), words.String(part, "name")) != nil {
				continue
			}
			r := converge.Ref{Kind: k, NS: l.Obj.GetNamespace(), Name: words.String(part, "name")}
			f.Waits, f.State = converge.On("Object", r, ""), converge.Blocked
			f.Next = converge.PersonDoes("makes %s; %s goes on then", f.Waits.On.Short(), f.Owner)
			return true
		}
	}
	return false
}

// lackAt has a person make what the words name by its namespace and name, if it is not there; false: nothing is.
func lackAt(l *converge.Look, f *converge.Finding, message string) bool {
	m := placed.FindStringSubmatch(message)
	if m == nil || !inVain.MatchString(message) {
		return false
	}
	tree, _ := words.Tree(l.Obj)
	for _, is := range mentions.Of(l).Mentions(tree) { // then it is known by which field
		if is.Obj == nil && is.Name == m[3] {
			return false
		}
	}
	if m[2] != l.Obj.GetNamespace() && resource.Get(l.Read, core.Namespaces, "", m[2]) == nil {
		return false // anything may have a slash in it
	}
	for _, k := range mentions.Of(l).KindsBy(m[1], "", "", true) {
		if k.Info().Custom || !l.Sees(k, m[2]) || l.Read.Lookup(k, m[2], m[3]) != nil {
			continue
		}
		f.Waits, f.State = converge.On("Object", converge.Ref{Kind: k, NS: m[2], Name: m[3]}, ""), converge.Blocked
		f.Next = converge.PersonDoes("makes %s in namespace %s, or names another one; %s goes on then", f.Waits.On.Short(), m[2],
			f.Owner)
		return true
	}
	return false
}

// ofKind looks at the objects of a kind of the same project that the words speak of without a name: EventBus not found. If one is not well
// that is the cause; if there is none, that is.
func ofKind(l *converge.Look, f *converge.Finding, message string) {
	ns := l.Obj.GetNamespace()
	if len(f.Below) > 0 || f.State == converge.Blocked || ns == "" {
		return
	}
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Custom || !i.Namespaced || k == l.Kind || words.Domain(i.GVK.Group) != words.Domain(l.Kind.Info().GVK.Group) {
			continue
		}
		_, rest, is := strings.Cut(message, i.GVK.Kind+" ")
		if none := noneOf.FindStringSubmatch(message); !is && none != nil && strings.TrimSuffix(none[1], "s") == i.GVK.Kind {
			rest, is = "not found", true
		}
		for _, short := range i.Short { // as isbsvc
			if !is && words.StandsIn(message, short) {
				_, rest, is = strings.Cut(message, short+" ")
			}
		}
		if !is || !l.Sees(k, ns) || !strings.HasPrefix(rest, "not ") {
			continue
		}
		there := false
		for obj := range l.Read.Each(k, ns) {
			if there = true; !l.Health(k, obj).Converged() {
				f.Below = append(f.Below, converge.RefTo(k, obj))
			}
		}
		if len(f.Below) > 0 {
			waitsFor(f, message, f.Below...)
		}
		if there || !strings.HasPrefix(rest, "not found") {
			return
		}
		f.Says = strings.TrimSuffix(f.Says, ".") + "; there is no " + i.Singular + " in namespace " + ns
		for obj := range l.Read.Each(k, "") {
			if !l.Sees(k, obj.GetNamespace()) {
				continue
			}
			f.Says += ", but " + i.Singular + "/" + obj.GetName() + " in namespace " + obj.GetNamespace()
			break
		}
		f.State, f.Next = converge.Blocked, converge.PersonDoes("makes one there; %s goes on then", f.Owner)
		f.Advice = append([]string{"make one in namespace " + ns + "; those that there are: kubectl get " + i.GR().String() + " -A"},
			f.Advice...)
		return
	}
}

// noneOf finds the kind of which there are none: No valid ManagedClusterSetBindings found.
var noneOf = pattern.New(`(?i:\bno )(?:[a-z]+ )?([A-Z]\w+) (?:were |was )?(?:found|available|exist)`)

// listed finds what is missing after the word for its kind: Referenced CiliumBGPPeerConfig(s) are missing: [peer-1].
var listed = pattern.New(`\b([A-Z][A-Za-z]+)(?:\(s\)|s)? (?:is |are )?(?:missing|not found): ` +
	`\[?['"]?([a-z0-9][a-z0-9.-]*[a-z0-9])|\bmissing ([A-Z][A-Za-z]+)(?:\(s\)|s)?: \[?['"]?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// lackListed finds the first of those, if it is not there.
func lackListed(l *converge.Look, f *converge.Finding, message string) {
	m := listed.FindStringSubmatch(message)
	if m == nil || f.State == converge.Blocked {
		return
	}
	name := m[2] + m[4]
	for _, k := range mentions.Of(l).KindsBy(m[1]+m[3], "", "", true) {
		ns := l.Obj.GetNamespace()
		if !k.Info().Namespaced {
			ns = ""
		}
		if !l.Sees(k, ns) || l.Read.Lookup(k, ns, name) != nil {
			continue
		}
		f.Waits, f.State = converge.On("Object", converge.Ref{Kind: k, NS: ns, Name: name}, ""), converge.Blocked
		f.Next = converge.PersonDoes("makes it, or names another one; %s goes on then", f.Owner)
		return
	}
}

// unready finds what is said not to be well by the last word of its kind: pool master is not ready, of a MachineConfigPool.
var unready = pattern.New(`\b([a-z]{4,}) ['"]?([a-z0-9][a-z0-9.-]*[a-z0-9])['"]? (?:is|are) ` +
	`(?:not (?:ready|healthy)|degraded|unhealthy)`)

// approving finds what a controller asks a person to set, so that it goes on: set approvePlan: "plan-1" to approve this plan.
var approving = pattern.New(`\bset (?:spec\.)?([a-z][A-Za-z]+)(?::|=| to) ?["']([\w.-]+)["'] to ` +
	`(?:approve|confirm|continue|proceed)`)

// asked advises to set what the controller asks for.
func asked(l *converge.Look, f *converge.Finding, message string) {
	m := approving.FindStringSubmatch(message)
	if m == nil {
		return
	}
	f.State, f.Next = converge.Blocked, converge.PersonDoes("approves it; %s goes on then", f.Owner)
	f.Advice = append([]string{fmt.Sprintf(`to approve it: kubectl patch %s %s --type=merge -p '{"spec":{"%s":"%s"}}'`,
		l.Kind.Info().GR(), converge.Called(l), m[1], m[2])}, f.Advice...)
}

// kin looks at the object of the same project that the words have by its name and the end of its kind's.
func kin(l *converge.Look, f *converge.Finding, message string) {
	if len(f.Below) > 0 {
		return
	}
	for _, m := range unready.FindAllStringSubmatch(message, converge.MaxLooks) {
		for _, k := range l.Kinds.All() {
			i, ns := k.Info(), l.Obj.GetNamespace()
			if !i.Custom || words.Domain(i.GVK.Group) != words.Domain(l.Kind.Info().GVK.Group) || !strings.HasSuffix(i.GVK.Kind,
				strings.ToUpper(m[1][:1])+m[1][1:]) || !l.Sees(k, ns) {
				continue
			}
			if obj := l.Read.Lookup(k, ns, m[2]); obj != nil && obj.GetUID() != l.Obj.GetUID() && !l.Health(k, obj).Converged() {
				waitsFor(f, message, converge.RefTo(k, obj))
				return
			}
		}
	}
}

var (
	// Hosted finds a service of the cluster by the name that its DNS has for it.
	Hosted = pattern.New(`\b([a-z0-9][a-z0-9-]*)\.([a-z0-9][a-z0-9-]*)\.svc\b`)
	// Symptom finds words that tell of what nobody answers, and not why.
	Symptom = pattern.New(`(?i)deadline|timed out|timeout|refused|retries|unreachable|no endpoints|` +
		`connection reset|misbehaving|\bEOF\b|no servers available|(failed|unable) to connect|(cannot|can't|could not) (connect|reach)|` +
		`connection error`)
)

// unserved finds an API that somebody asked in vain: metrics.k8s.io/v1beta1: the server is currently unable to handle the request.
var unserved = pattern.New(`\b([a-z0-9-]+(?:\.[a-z0-9-]+)+)/(v[a-z0-9]+): the server is currently unable to handle`)

// aggregated looks at the API that the server hands on to another one and that a controller asked in vain.
func aggregated(l *converge.Look, f *converge.Finding, message string) {
	m := unserved.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 {
		return
	}
	s := resource.Get(l.Read, apiregistration.APIServices, "", m[2]+"."+m[1])
	if s == nil || l.Health(apiregistration.APIServices, s).Converged() {
		return
	}
	waitsFor(f, message, converge.RefTo(apiregistration.APIServices, s))
}

// reached looks at the service of the cluster that a controller can't reach: if it is not well, that is the cause.
func reached(l *converge.Look, f *converge.Finding, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked || !Symptom.MatchString(message) {
		return
	}
	text := message
	if tree, _ := words.Tree(l.Obj); !address.MatchString(message) && !Hosted.MatchString(message) { // it may stand in the spec
		for _, v := range values("spec", tree["spec"], 0) {
			if Hosted.MatchString(v.text) {
				text += " " + v.text
			}
		}
	}
	if bad := Needed(l, f, nil, text); len(bad) > 0 {
		waitsFor(f, message, bad[0])
	} else if p := dialled(l.World, message); p != nil && !l.Health(core.Pods, p).Converged() {
		waitsFor(f, message, converge.RefTo(core.Pods, p))
	}
}

// address finds an address and a port that somebody asked.
var address = pattern.New(`\b(\d+\.\d+\.\d+\.\d+):(\d+)\b`)

// podsByAddress are pods by their addresses; those in the network of a node share its.
type podsByAddress map[string][]*corev1.Pod

// dialled is the pod at an address that somebody asked in vain; nil: none is there.
func dialled(w *converge.World, message string) *corev1.Pod {
	seen := converge.Kept[podsByAddress](w)
	for _, m := range address.FindAllStringSubmatch(message, converge.MaxBranches) {
		if *seen == nil {
			*seen = podsByAddress{}
			for _, p := range resource.List(w.Read, core.Pods, "") {
				if p.Status.PodIP != "" {
					(*seen)[p.Status.PodIP] = append((*seen)[p.Status.PodIP], p)
				}
			}
		}
		for _, p := range (*seen)[m[1]] {
			if !p.Spec.HostNetwork || hasPort(p, m[2]) {
				return p
			}
		}
	}
	return nil
}

func hasPort(p *corev1.Pod, port string) bool {
	for i := range p.Spec.Containers {
		for _, has := range p.Spec.Containers[i].Ports {
			if fmt.Sprint(has.ContainerPort) == port || fmt.Sprint(has.HostPort) == port {
				return true
			}
		}
	}
	return false
}

// heard adds what else tells why, where the object itself does not: what it names may say more of what failed, or its node may be kept from
// being drained.
func heard(l *converge.Look, f *converge.Finding, tree map[string]any, message string) string {
	if len(f.Below) > 0 || f.State == converge.Blocked {
		return ""
	}
	if n := resource.Get(l.Read, core.Nodes, "", l.Obj.GetName()); n != nil && n.Spec.Unschedulable {
		return kept(l, f, n, message)
	}
	if strings.Contains(message, " ") {
		return ""
	}
	for _, m := range mentions.Of(l).Mentions(tree) {
		part, custom := words.Tree(m.Obj)
		if m.Obj == nil || !custom {
			continue
		}
		status, _ := part["status"].(map[string]any)
		if c := words.WithinStatus(status, 1, words.PastFields); c.Says != "" {
			return "; " + new(converge.ObjectOf(m.Kind, m.Obj)).Short() + ", which it names, " + c.Says + ": " + c.Message
		}
	}
	return ""
}

// kept tells of an object that stands for a cordoned node that budgets keep pods there: who drains it waits for them.
func kept(l *converge.Look, f *converge.Finding, n *corev1.Node, message string) string {
	_, why, _ := l.Workloads().Held(l.World, n)
	if why == "" || !strings.Contains(message, "timed out") && !strings.Contains(strings.ToLower(message), "drain") {
		return ""
	}
	f.Advice = append([]string{"let one of those pods go: scale its workload up, or have the budget allow one less: kubectl get pdb -A"},
		f.Advice...)
	return fmt.Sprintf("; node/%s is cordoned, and %s", n.Name, why)
}

// isSpokenOf says that words speak of what is mentioned by its kind or the field's name: "Source artifact not found" of sourceRef.
func isSpokenOf(m *mentions.Mention, message string) bool {
	low := strings.ReplaceAll(strings.ToLower(message), " ", "")
	stem := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(m.Field[strings.LastIndex(m.Field, ".")+1:], "s"), "Ref"))
	return len(stem) > 4 && strings.Contains(low, stem) || strings.Contains(low, strings.ToLower(m.Kind.Info().GVK.Kind))
}

// meantBy is spokenOf, of whole words, and of a field that names one object alone.
func meantBy(m *mentions.Mention, message string) bool {
	stem, one := strings.CutSuffix(m.Field[strings.LastIndex(m.Field, ".")+1:], "Ref")
	low := strings.ToLower(message)
	return one && len(stem) > 4 && words.StandsIn(low, strings.ToLower(stem)) ||
		words.StandsIn(low, strings.ToLower(m.Kind.Info().GVK.Kind))
}

// afar finds an object that is spoken of by its name alone in the namespace where an application goes to.
func afar(l *converge.Look, k resource.Kind, name string) resource.Object {
	tree, _ := words.Tree(l.Obj)
	if ns := Destination(tree); ns != "" {
		return l.Read.Lookup(k, ns, name)
	}
	return nil
}

// unfit finds an object that a server does not take as it is to be: Deployment.apps "web" is invalid.
var unfit = pattern.New(`\b([A-Z][A-Za-z]+)\.[a-z0-9.-]+ \\?"()([a-z0-9][a-z0-9.-]*)\\?" is invalid`)

// spokenOf looks at the objects that a controller speaks of by kind and name: one that is not well is the cause.
func spokenOf(l *converge.Look, f *converge.Finding, message string) {
	if len(f.Below) > 0 {
		return
	}
	defer beside(l, f)
	defer reached(l, f, message)
	defer aggregated(l, f, message)
	defer kin(l, f, message)
	defer asked(l, f, message)
	defer lackListed(l, f, message)
	defer markedPart(l, f, message)
	defer ofKind(l, f, message)
	defer lackOf(l, f, message)
	for _, m := range KubeletsPod.FindAllStringSubmatch(message, converge.MaxLooks) {
		if p := resource.Get(l.Read, core.Pods, m[2], m[1]); p != nil && !l.Health(core.Pods, p).Converged() {
			waitsFor(f, message, converge.RefTo(core.Pods, p))
			return
		}
	}
	for _, m := range slices.Concat(Spoken.FindAllStringSubmatch(message, converge.MaxLooks), SpokenLow.FindAllStringSubmatch(message,
		converge.MaxLooks), unfit.FindAllStringSubmatch(message, converge.MaxLooks)) {
		ns := cmp.Or(m[2], l.Obj.GetNamespace())
		for _, k := range append(mentions.Of(l).KindsBy(m[1], "", "", true), mentions.Of(l).KindsBy(strings.TrimSuffix(m[1], "s"), "", "",
			true)...) {
			ns := ns
			if !k.Info().Namespaced {
				ns = ""
			}
			obj := l.Read.Lookup(k, ns, m[3])
			if obj == nil && m[2] == "" {
				obj = afar(l, k, m[3])
			}
			switch {
			case obj == nil || obj.GetUID() == l.Obj.GetUID():
				continue
			case lasting.MatchString(message) && k.Info().GR() == StatefulSets:
				f.Advice[0] = "delete it without its pods and claims, so that it is made anew and takes them over: kubectl delete " +
					converge.RefTo(k, obj).Called() + " --cascade=orphan"
				return
			case lasting.MatchString(message):
				f.Advice[0] += ": kubectl delete " + converge.RefTo(k, obj).Called()
				return
			case !l.Health(k, obj).Converged():
				waitsFor(f, message, converge.RefTo(k, obj))
				return
			case halted(f, k, obj):
				return
			}
		}
	}
}
