package converge

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// operators are the ways in which custom resources get stuck: their controllers live outside, and are known by what
// they do at the front door.
func operators() []Situation {
	return []Situation{
		{"ClassMissing", nil, custom(classNotThere)},
		{"RoutePortMissing", nil, custom(portNotThere)},
		{"OperatorMissing", nil, custom(operatorMissing)},
		{"OperatorRefused", nil, custom(operatorRefused)},
		{"PartsNotReady", nil, custom(partsNotReady)},
		{"OperatorBehind", nil, custom(operatorBehind)},
		{"OperatorReports", nil, custom(operatorReports)},
		{"TakesLong", nil, custom(takesLong)},
	}
}

// custom limits a rule to kinds that users defined.
func custom(see func(l *look, status map[string]any) *Finding) func(l *look) *Finding {
	return func(l *look) *Finding {
		tree, ok := content(l.obj)
		if !ok || l.obj.GetDeletionTimestamp() != nil {
			return nil
		}
		status, _ := tree["status"].(map[string]any)
		return see(l, status)
	}
}

// operatorMissing: nobody watches the kind, so nobody will see what is to be done.
func operatorMissing(l *look, _ map[string]any) *Finding {
	gr := l.kind.Info().GR()
	if l.Callers == nil {
		return l.operatorDown()
	}
	if !l.unwatched(gr) {
		return nil
	}
	who := l.keeper()
	f := &Finding{Says: "waits for a controller, and no controller watches " + gr.String(), Owner: who, State: Missing,
		Waits: forName("Controller", who),
		Next:  does(who, "takes it up when it runs and watches %s", gr),
		Advice: []string{"start the controller of " + gr.String() +
			", or look at its log, and why it does not reach the API server: kubectl get pods -A"}}
	if at := l.lastWrite(who); !at.IsZero() {
		f.Says += fmt.Sprintf("; %s wrote it last %s ago", who, ago(l.Now.Sub(at)))
	}
	defer l.lastWord(f)
	lease := l.leaseOf(who)
	if l.idle(f, who, lease) {
		return f
	}
	if lease != nil && lease.Spec.RenewTime != nil {
		f.Says += fmt.Sprintf("; its lease %s/%s was renewed last %s ago", lease.Namespace, lease.Name, ago(l.Now.Sub(lease.Spec.RenewTime.Time)))
	}
	return f
}

// idle tells of the workload that the controller seems to run in, if it does not run.
func (l *look) idle(f *Finding, who string, lease *coordinationv1.Lease) bool {
	k, obj, off := l.programOf(who, lease)
	if obj == nil {
		return false
	}
	name := new(objectOf(k, obj)).Short()
	f.Waits = on("Object", refTo(k, obj), "")
	if !off {
		f.Says = "waits for its controller, and " + name + " in namespace " + obj.GetNamespace() + " does not run"
		f.Below = []Ref{refTo(k, obj)}
		return true
	}
	f.Says, f.Owner = "waits for its controller, and "+name+" in namespace "+obj.GetNamespace()+" is scaled to 0", person
	f.Next, f.Advice = does(person, "scales it up"), []string{"kubectl scale " + name + " -n " + obj.GetNamespace() + " --replicas=1"}
	return true
}

// operatorDown tells, where nobody knows who watches what, of a controller that is seen not to run: its workload has no pods, or
// its lease is old. Of one that is not found it says nothing.
func (l *look) operatorDown() *Finding {
	who := l.keeper()
	lease := l.leaseOf(who)
	f := &Finding{Owner: who, State: Missing, Waits: forName("Controller", who), Next: does(who, "takes it up when it runs"),
		Advice: []string{"look at the controller of " + l.kind.Info().GR().String() + ", and its log: kubectl get pods -A"}}
	defer l.lastWord(f)
	if l.halting(who, lease) != "" {
		return nil
	}
	if l.idle(f, who, lease) {
		return f
	}
	if lease == nil || l.Now.Sub(lease.Spec.RenewTime.Time) < max(leaseLife(lease), time.Minute) {
		return nil
	}
	f.Says = fmt.Sprintf("waits for its controller, which seems not to run: its lease %s/%s was renewed last %s ago", lease.Namespace,
		lease.Name, ago(l.Now.Sub(lease.Spec.RenewTime.Time)))
	return f
}

// halting names the workload of a controller that does not run now, and reported on the object since it does not: it gets on with its work
// now and then, so what it reports counts. It is "" of one that reports no reason.
func (l *look) halting(who string, lease *coordinationv1.Lease) string {
	tree, _ := content(l.obj)
	if !l.outside() || complaintIn(tree).message == "" || complaintIn(tree).have != l.health.Have {
		return ""
	}
	k, obj, off := l.programOf(who, lease)
	if obj == nil || off || !l.lastWrite(who).After(l.Health(k, obj).Since) {
		return ""
	}
	return new(objectOf(k, obj)).Short() + " in namespace " + obj.GetNamespace()
}

// lastWord adds what the controller said of the object before it went: it may well be the cause.
func (l *look) lastWord(f *Finding) {
	tree, _ := content(l.obj)
	if c := complaintIn(tree); c.message != "" {
		f.Says += "; what it last said: " + c.message
		f.Error, f.Told = textOnly(c.message), c.message
	}
}

// programOf is the workload that a controller seems to run in, if it does not run: it has the controller's name, or that of the pod
// that held its lease.
func (l *look) programOf(who string, lease *coordinationv1.Lease) (k resource.Kind, found resource.Object, off bool) {
	if k, found, off = projectDown(l.World, l.kind); found != nil {
		return k, found, off
	}
	holder := ""
	if lease != nil {
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	is := func(name string) bool { return name == who || holder != "" && strings.HasPrefix(holder, name+"-") }
	for _, d := range resource.List(l.Read, kinds.Deployments, "") {
		off = ptr.Deref(d.Spec.Replicas, 1) == 0
		if is(d.Name) && (off || d.Status.ReadyReplicas == 0 && !l.Health(kinds.Deployments, d).Converged()) {
			return kinds.Deployments, d, off
		}
	}
	for _, s := range resource.List(l.Read, kinds.StatefulSets, "") {
		off = ptr.Deref(s.Spec.Replicas, 1) == 0
		if is(s.Name) && (off || s.Status.ReadyReplicas == 0 && !l.Health(kinds.StatefulSets, s).Converged()) {
			return kinds.StatefulSets, s, off
		}
	}
	return nil, nil, false
}

// ago words a duration roughly, so that the sentence does not change every second.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return count(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return count(int(d/time.Hour), "hour")
	}
	return count(int(d/(24*time.Hour)), "day")
}

// lastWrite is the time at which the manager last wrote the object.
func (l *look) lastWrite(manager string) (at time.Time) {
	for _, m := range l.obj.GetManagedFields() {
		if m.Manager == manager && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// leaseOf finds the lease by which a controller elects its leader: one that has its name, or its holder's.
func (l *look) leaseOf(who string) *coordinationv1.Lease {
	group := l.kind.Info().GVK.Group
	var best *coordinationv1.Lease
	for _, lease := range resource.List(l.Read, kinds.Leases, "") {
		if lease.Namespace == "kube-node-lease" || lease.Spec.RenewTime == nil {
			continue
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if strings.Contains(lease.Name, who) || strings.Contains(holder, who) || strings.Contains(lease.Name, group) {
			if best == nil || lease.Spec.RenewTime.After(best.Spec.RenewTime.Time) {
				best = lease
			}
		}
	}
	return best
}

// refusedFor is the time that a refusal is held against a controller that has not written since.
const refusedFor = 10 * time.Minute

// operatorRefused: the controller is there, and the API server refuses what it asks for.
func operatorRefused(l *look, _ map[string]any) *Finding {
	r, ok := l.denied(l.kind.Info().GR(), l.obj)
	if !ok || l.Now.Sub(r.Last) > refusedFor {
		return nil
	}
	f := &Finding{Says: "waits for " + r.Agent + ", and " + r.User + " is refused to " + r.Verb + " " + r.Resource + ": " + r.Message,
		Owner: r.Agent, State: Blocked, Error: r.failure(),
		Waits: forName("Policy", "RBAC"), Next: does(r.Agent, "tries again"),
		Advice: []string{"give " + r.User + " the right to " + r.Verb + " " + r.Resource}}
	if !r.Forbidden {
		f.Waits, f.Advice = forName("Policy", "admission"), []string{"change what stands in the way of the controller's write"}
	}
	if name := between(r.Message, "exceeded quota: ", ","); name != "" {
		f.Waits, f.Advice = on("Quota", l.namespaced(kinds.ResourceQuotas, name), "spec.hard"),
			[]string{"raise the quota: kubectl edit resourcequota " + name + " -n " + l.obj.GetNamespace()}
	}
	return f
}

// partsNotReady: what the controller made for the object is not well.
func partsNotReady(l *look, _ map[string]any) *Finding {
	tree, _ := content(l.obj)
	bad := append(l.partsOf(l.obj, 0), l.search().applied(tree)...)
	if len(bad) == 0 {
		return nil
	}
	who := l.keeper()
	return &Finding{Says: "waits for what was made for it", Owner: who, State: Waiting, Waits: on("Object", bad[0], ""),
		Next: does(who, "goes on when it is"), Below: bad}
}

// partsOf are those of what was made for an object that are not well. Below one that says nothing of itself lies what was made for that.
func (l *look) partsOf(owner resource.Object, depth int) (bad []Ref) {
	for _, k := range l.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(owner.GetUID())) {
			if !l.Health(k, obj).Converged() {
				bad = append(bad, refTo(k, obj))
			} else if k.Info().Custom && depth < maxDepth {
				bad = append(bad, l.partsOf(obj, depth+1)...)
			}
		}
	}
	return bad
}

// operatorBehind goes by status.observedGeneration, by convention of the API the last spec that the controller looked at. Some write -1
// before they begin; a complaint of theirs then says more.
func operatorBehind(l *look, status map[string]any) *Finding {
	observed, ok := status["observedGeneration"].(int64)
	if tree, _ := content(l.obj); !ok || observed < 0 && complaintIn(tree).says != "" || observed >= l.obj.GetGeneration() {
		return nil
	}
	who, watches := l.keeper(), ", which watches it,"
	if l.Callers == nil {
		watches = ""
	}
	f := &Finding{Says: fmt.Sprintf("was changed, and %s%s has not taken note of that", who, watches), Owner: who, State: Waiting,
		Waits: on("Field", refTo(l.kind, l.obj), "status.observedGeneration"),
		Next:  does(who, "looks at the new spec"), Advice: []string{logOf(l, who)}}
	l.lastWord(f)
	return f
}

// operatorReports: the controller itself says that it is not done, and why.
func operatorReports(l *look, _ map[string]any) *Finding {
	who, tree := l.keeper(), map[string]any(nil)
	if tree, _ = content(l.obj); complaintIn(tree).have != l.health.Have {
		return nil
	}
	c := complaintIn(tree)
	field, _, _ := strings.Cut(c.have, "=")
	f := &Finding{Says: l.health.Says, words: c.have + " " + c.reason, Owner: who, State: Waiting,
		Waits:  on("Field", refTo(l.kind, l.obj), field),
		Next:   does(who, "goes on with it"),
		Advice: []string{logOf(l, who)}}
	if c.message != "" {
		c.message = plainly(c.message)
		f.Says += ": " + c.message
		f.Error = textOnly(c.message)
	}
	said := c.message
	if strings.Contains(c.message, "ReferenceGrant") { // of the Gateway API
		f.Advice = []string{"in the namespace that it refers to, create a referencegrant from namespace " + l.obj.GetNamespace()}
	}
	if e := l.newestWarning(); e != nil && (!faulty.MatchString(c.message) || !strings.ContainsAny(c.message, `:"'/`)) {
		f.Says += "; its last warning, of " + ago(l.Now.Sub(told(e))) + " ago: " + oneLine(e.Message)
		f.Error = eventFailure(e)
		said += " " + e.Message
	}
	for _, r := range l.search().besides(tree) {
		if f.Aside == "" && c.message != "" && !strings.Contains(r.says, oneLine(c.message)) {
			f.Aside = "it " + r.says
		}
	}
	l.named(f, tree, said)
	if len(f.Below) == 0 && !faulty.MatchString(c.message) {
		f.Says += untaken(l)
	}
	if name := l.halting(who, l.leaseOf(who)); name != "" {
		f.Aside = "its controller seems to be " + name + ", which is not ready now"
	}
	if c.final {
		if why, command := lastFailed(l, l.obj); why != "" && len(f.Below) == 0 {
			f.Says += "; " + why
			f.Advice = []string{"read what it said: " + command}
		}
		f.State, f.Next = Failed, does(person, "removes what makes it fail; %s does not go on by itself", who)
	}
	return f
}

func (l *look) search() *search { return &search{World: l.World, kind: l.kind, obj: l.obj} }

// named adds what the object names that is not there or not well. What its controller speaks of is the cause.
func (l *look) named(f *Finding, tree map[string]any, message string) {
	who := f.Owner
	if message != "" && (faulty.MatchString(message) || !passing.MatchString(message)) {
		f.Next = does(who, "tries again; what it says is likely for a person to see to")
	}
	if strings.Contains(message, "is immutable") {
		f.Advice = append([]string{"delete what can't be changed, so that it is made anew; " +
			"what it has is lost, so look first whether that may be"}, f.Advice...)
	}
	defer spokenOf(l, f, message)
	defer outdated(l, f, tree, message)
	for _, m := range l.search().mentions(tree) {
		says, vague := m.says(l.obj.GetNamespace()), !strings.Contains(message, " ") || m.spokenOf(message)
		if m.loose && !strings.Contains(message, m.Name) {
			continue
		}
		switch {
		case says != "":
			f.Says += "; it " + says
			f.Waits, f.Next = m.wait(), does(person, "makes it, or names another one; %s goes on then", who)
			if vague || strings.Contains(message, m.Name) {
				f.State = Blocked
			}
			return
		case (vague || strings.Contains(message, m.Name)) && !l.Health(m.Kind, m.obj).Converged():
			f.Below, f.Told, f.State = []Ref{m.Ref}, message, Waiting
			f.Waits, f.Next = m.wait(), does(who, "goes on when that is well")
			return
		}
	}
}

// spokenOf says that words speak of what is mentioned by its kind or the field's name: "Source artifact not found" of sourceRef.
func (m *mention) spokenOf(message string) bool {
	low := strings.ToLower(message)
	stem := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(m.field[strings.LastIndex(m.field, ".")+1:], "s"), "Ref"))
	return len(stem) > 4 && strings.Contains(low, stem) || strings.Contains(low, strings.ToLower(m.Kind.Info().GVK.Kind))
}

// meantBy is spokenOf, of whole words, and of a field that names one object alone.
func (m *mention) meantBy(message string) bool {
	stem, one := strings.CutSuffix(m.field[strings.LastIndex(m.field, ".")+1:], "Ref")
	low := strings.ToLower(message)
	return one && len(stem) > 4 && standsIn(low, strings.ToLower(stem)) || standsIn(low, strings.ToLower(m.Kind.Info().GVK.Kind))
}

// spoken finds an object in a controller's words: HelmChart 'a/web', Job/a/web, Secret "web", Pods resource web.
var spoken = regexp.MustCompile(`\b([A-Z][A-Za-z]+)(?: resource)?[ /]['"]?(?:([a-z0-9-]+)/)?([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// spokenOf looks at the objects that a controller speaks of by kind and name: one that is not well is the cause.
func spokenOf(l *look, f *Finding, message string) {
	if len(f.Below) > 0 {
		return
	}
	defer beside(l, f)
	defer lackOf(l, f, message)
	for _, m := range spoken.FindAllStringSubmatch(message, maxLooks) {
		ns := cmp.Or(m[2], l.obj.GetNamespace())
		for _, k := range append(l.search().kindsBy(m[1], "", "", true), l.search().kindsBy(strings.TrimSuffix(m[1], "s"), "", "", true)...) {
			obj := l.Read.Lookup(k, ns, m[3])
			switch {
			case obj == nil || obj.GetUID() == l.obj.GetUID():
				continue
			case strings.Contains(message, "is immutable"):
				f.Advice[0] += ": kubectl delete " + k.Info().GR().String() + " " + m[3] + " -n " + ns
				return
			case !l.Health(k, obj).Converged():
				f.Below, f.Told, f.State = []Ref{refTo(k, obj)}, message, Waiting
				f.Waits, f.Next = on("Object", refTo(k, obj), ""), does(f.Owner, "goes on when that is well")
				return
			}
		}
	}
}

// beside tells of what else may be the cause: a workload that the operator brought about, by the label that it gives, and is not well, or
// an object that is named.
func beside(l *look, f *Finding) {
	tree, _ := content(l.obj)
	var bad []Ref
	for _, m := range l.search().mentions(tree) {
		if m.obj != nil && !l.Health(m.Kind, m.obj).Converged() {
			bad = append(bad, m.Ref)
		}
	}
	for _, k := range templated {
		for obj := range l.Read.ByLabel(k, l.obj.GetNamespace(), l.kind.Info().GVK.Group+"/name", l.obj.GetName()) {
			if !l.Health(k, obj).Converged() {
				bad = append(bad, refTo(k, obj))
			}
		}
	}
	if len(bad) == 0 || len(f.Below) > 0 {
		return
	}
	if late := strings.Contains(f.Says, "deadline") || strings.Contains(f.Says, "timed out"); late && !bad[0].Kind.Info().Custom {
		f.Below, f.Told, f.Aside = bad, errorText(f.Error), ""
		return
	}
	if f.Aside != "" {
		return
	}
	for _, s := range l.below(loop.KeyOf(l.kind, l.obj), bad[:1]) { // by the path: two that name each other have no end
		if !strings.Contains(f.Says, s.Object.Short()) {
			f.Aside = "what it has to do with is not well: " + s.Gap().Verdict
		}
	}
}

// newestWarning is the last that was told of the object within an hour; nil: nothing was.
func (l *look) newestWarning() (best *corev1.Event) {
	for _, e := range l.events(l.obj.GetUID()) {
		if l.Now.Sub(told(e)) < time.Hour && told(e).After(changed(l.obj)) && (best == nil || told(best).Before(told(e))) {
			best = e
		}
	}
	return best
}

// anything explains an object that no rule knows.
func anything() []Situation {
	return []Situation{{"Warned", nil, func(l *look) *Finding {
		e := l.newestWarning()
		if e == nil {
			return nil
		}
		who := cmp.Or(cmp.Or(e.Source.Component, e.ReportingController), l.keeper())
		f := &Finding{Says: l.health.Says + ": its last warning, of " + ago(l.Now.Sub(told(e))) + " ago: " + e.Reason + ": " + e.Message,
			Owner: who, State: BackingOff, Error: eventFailure(e), Next: does(who, "tries again")}
		if tree, custom := content(l.obj); custom {
			f.words, f.Advice = e.Reason, []string{logOf(l, who)}
			l.named(f, tree, e.Message)
		}
		return f
	}}, {"Unknown", nil, func(l *look) *Finding {
		return &Finding{Says: l.health.Says}
	}}}
}
