package general

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/coordination"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Operators are the ways in which custom resources get stuck: their controllers live outside, and are known by what
// they do at the front door.
func Operators() []converge.Situation {
	return []converge.Situation{
		{Name: "ClassMissing", Of: nil, See: custom(ClassNotThere)},
		{Name: "RoutePortMissing", Of: nil, See: custom(PortNotThere)},
		{Name: "TargetMissing", Of: nil, See: custom(TargetNotThere)},
		{Name: "OperatorMissing", Of: nil, See: custom(operatorMissing)},
		{Name: "OperatorRefused", Of: nil, See: custom(operatorRefused)},
		{Name: "PartsNotReady", Of: nil, See: custom(partsNotReady)},
		{Name: "OperatorBehind", Of: nil, See: custom(operatorBehind)},
		{Name: "OperatorReports", Of: nil, See: custom(operatorReports)},
		{Name: "TakesLong", Of: nil, See: custom(TakesLong)},
	}
}

// custom limits a rule to kinds that users defined.
func custom(see func(l *converge.Look, status map[string]any) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		tree, ok := words.Tree(l.Obj)
		if !ok || l.Obj.GetDeletionTimestamp() != nil {
			return nil
		}
		status, _ := tree["status"].(map[string]any)
		return see(l, status)
	}
}

// operatorMissing: nobody watches the kind, so nobody will see what is to be done.
func operatorMissing(l *converge.Look, _ map[string]any) *converge.Finding {
	gr := l.Kind.Info().GR()
	if l.Callers == nil {
		return operatorDown(l)
	}
	if !l.Unwatched(gr) {
		return nil
	}
	who := l.Keeper()
	f := &converge.Finding{Says: "waits for a controller, and no controller watches " + gr.String(), Owner: who, State: converge.Missing,
		Waits: converge.ForName("Controller", who),
		Next:  converge.Does(who, "takes it up when it runs and watches %s", gr),
		Advice: []string{"start the controller of " + gr.String() +
			", or look at its log, and why it does not reach the API server: kubectl get pods -A"}}
	if at := lastWrite(l, who); !at.IsZero() {
		f.Says += fmt.Sprintf("; %s wrote it last %s ago", who, words.Ago(l.Now.Sub(at)))
	}
	defer lastWord(l, f)
	lease := leaseOf(l, who)
	if idle(l, f, who, lease) {
		return f
	}
	if lease != nil && lease.Spec.RenewTime != nil {
		f.Says += fmt.Sprintf("; its lease %s/%s was renewed last %s ago", lease.Namespace, lease.Name,
			words.Ago(l.Now.Sub(lease.Spec.RenewTime.Time)))
	}
	return f
}

// idle tells of the workload that the controller seems to run in, if it does not run.
func idle(l *converge.Look, f *converge.Finding, who string, lease *coordinationv1.Lease) bool {
	k, obj, off := programOf(l, who, lease)
	if obj == nil {
		return false
	}
	name := new(converge.ObjectOf(k, obj)).Short()
	f.Waits = converge.On("Object", converge.RefTo(k, obj), "")
	if !off {
		f.Says = "waits for its controller, and " + name + " in namespace " + obj.GetNamespace() + " does not run"
		f.Below = []converge.Ref{converge.RefTo(k, obj)}
		return true
	}
	f.Says, f.Owner = "waits for its controller, and "+name+" in namespace "+obj.GetNamespace()+" is scaled to 0", converge.Person
	f.Next, f.Advice = converge.PersonDoes("scales it up"), []string{"kubectl scale " + name + " -n " + obj.GetNamespace() +
		" --replicas=1"}
	return true
}

// operatorDown tells, where nobody knows who watches what, of a controller that is seen not to run: its workload has no pods, or
// its lease is old. Of one that is not found it says nothing.
func operatorDown(l *converge.Look) *converge.Finding {
	who := l.Keeper()
	lease := leaseOf(l, who)
	f := &converge.Finding{Owner: who, State: converge.Missing, Waits: converge.ForName("Controller", who),
		Next:   converge.Does(who, "takes it up when it runs"),
		Advice: []string{"look at the controller of " + l.Kind.Info().GR().String() + ", and its log: kubectl get pods -A"}}
	defer lastWord(l, f)
	if halting(l, who, lease) != "" {
		return nil
	}
	if idle(l, f, who, lease) || leaderless(l, f) {
		return f
	}
	if lease == nil || l.Now.Sub(lease.Spec.RenewTime.Time) < max(converge.LeaseLife(lease), time.Minute) {
		return nil
	}
	f.Says = fmt.Sprintf("waits for its controller, which seems not to run: its lease %s/%s was renewed last %s ago", lease.Namespace,
		lease.Name, words.Ago(l.Now.Sub(lease.Spec.RenewTime.Time)))
	return f
}

// halting names the workload of a controller that does not run now, and reported on the object since it does not: it gets on with its work
// now and then, so what it reports counts. It is "" of one that reports no reason.
func halting(l *converge.Look, who string, lease *coordinationv1.Lease) string {
	tree, _ := words.Tree(l.Obj)
	if !l.Outside() || words.ComplaintIn(tree).Message == "" || words.ComplaintIn(tree).Have != l.Judged.Have {
		return ""
	}
	k, obj, off := programOf(l, who, lease)
	if obj == nil || off || !lastWrite(l, who).After(l.Health(k, obj).Since) {
		return ""
	}
	return new(converge.ObjectOf(k, obj)).Short() + " in namespace " + obj.GetNamespace()
}

// lastWord adds what the controller said of the object before it went: it may well be the cause.
func lastWord(l *converge.Look, f *converge.Finding) {
	tree, _ := words.Tree(l.Obj)
	if c := words.ComplaintIn(tree); c.Message != "" {
		f.Says += "; what it last said: " + c.Message
		f.Error, f.Told = TextOnly(c.Message), c.Message
	}
}

// programOf is the workload that a controller seems to run in, if it does not run: it has the controller's name, or that of the pod
// that held its lease.
func programOf(l *converge.Look, who string, lease *coordinationv1.Lease) (k resource.Kind, found resource.Object, off bool) {
	if k, found, off = downByRights(l.World, l.Kind); found != nil {
		return k, found, off
	}
	if k, found, off = ProjectDown(l.World, l.Kind); found != nil {
		return k, found, off
	}
	holder := ""
	if lease != nil {
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	is := func(name string) bool { return name == who || holder != "" && strings.HasPrefix(holder, name+"-") }
	for _, k := range l.Served(Deployments, StatefulSets) {
		for obj := range l.Read.Each(k, "") {
			want, ready := l.Workloads().Copies(obj)
			if is(obj.GetName()) && (want == 0 || ready == 0 && !l.Health(k, obj).Converged()) {
				return k, obj, want == 0
			}
		}
	}
	return nil, nil, false
}

// lastWrite is the time at which the manager last wrote the object.
func lastWrite(l *converge.Look, manager string) (at time.Time) {
	for _, m := range l.Obj.GetManagedFields() {
		if m.Manager == manager && m.Time != nil && m.Time.After(at) {
			at = m.Time.Time
		}
	}
	return at
}

// leaseOf finds the lease by which a controller elects its leader: one that has its name, or its holder's.
func leaseOf(l *converge.Look, who string) *coordinationv1.Lease {
	group := l.Kind.Info().GVK.Group
	var best *coordinationv1.Lease
	for _, lease := range resource.List(l.Read, coordination.Leases, "") {
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

// operatorRefused: the controller is there, and the API server refuses what it asks for.
func operatorRefused(l *converge.Look, _ map[string]any) *converge.Finding {
	r, ok := l.Denied(l.Kind.Info().GR(), l.Obj)
	if !ok || l.Now.Sub(r.Last) > RefusedFor {
		return nil
	}
	f := &converge.Finding{Says: "waits for " + r.Agent + ", and " + r.User + " is refused to " + r.Verb + " " + r.Resource + ": " +
		r.Message,
		Owner: r.Agent, State: converge.Blocked, Error: r.Failure(),
		Waits: converge.ForName("Policy", "RBAC"), Next: converge.Does(r.Agent, "tries again"),
		Advice: []string{"give " + r.User + " the right to " + r.Verb + " " + r.Resource}}
	if !r.Forbidden {
		f.Waits, f.Advice = converge.ForName("Policy", "admission"), []string{"change what stands in the way of the controller's write"}
	}
	if name := words.Between(r.Message, "exceeded quota: ", ","); name != "" {
		f.Waits, f.Advice = converge.On("Quota", Namespaced(l, core.ResourceQuotas, name), "spec.hard"),
			[]string{"raise the quota: kubectl edit resourcequota " + name + " -n " + l.Obj.GetNamespace()}
	}
	return f
}

// autoscalers measure what they scale.
var autoscalers = schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}

// partsNotReady: what the controller made for the object is not well.
func partsNotReady(l *converge.Look, _ map[string]any) *converge.Finding {
	tree, _ := words.Tree(l.Obj)
	bad := append(PartsOf(l, l.Obj, 0), Applied(mentions.Of(l), tree)...)
	if len(bad) == 0 || len(bad) == 1 && bad[0].Kind.Info().GR() == autoscalers && words.ComplaintIn(tree).Message != "" {
		return nil // what it can't measure its autoscaler can't either
	}
	who := l.Keeper()
	return &converge.Finding{Says: "waits for what was made for it", Owner: who, State: converge.Waiting,
		Waits: converge.On("Object", bad[0], ""),
		Next:  converge.Does(who, "goes on when it is"), Below: bad}
}

// operatorBehind goes by status.observedGeneration, by convention of the API the last spec that the controller looked at. Some write -1
// before they begin; a complaint of theirs then says more.
func operatorBehind(l *converge.Look, status map[string]any) *converge.Finding {
	observed, ok := status["observedGeneration"].(int64)
	if tree, _ := words.Tree(l.Obj); !ok || observed < 0 && words.ComplaintIn(tree).Says != "" || observed >= l.Obj.GetGeneration() {
		return nil
	}
	who, watches := l.Keeper(), ", which watches it,"
	if l.Callers == nil {
		watches = ""
	}
	f := &converge.Finding{Says: fmt.Sprintf("was changed, and %s%s has not taken note of that", who, watches), Owner: who,
		State: converge.Waiting,
		Waits: l.Field("status.observedGeneration"),
		Next:  converge.Does(who, "looks at the new spec"), Advice: []string{LogOf(l, who)}}
	if e := NewestWarning(l); e != nil {
		f.Says = "was changed, and " + who + " does not get on with that: " + words.OneLine(e.Message)
		f.State, f.Error, f.Words = converge.BackingOff, EventFailure(e), e.Reason
		f.Next = converge.Does(who, "tries again; what it says is likely for a person to see to")
		withSecret(l, f, e.Message)
		return f
	}
	lastWord(l, f)
	return f
}

// operatorReports: the controller itself says that it is not done, and why.
func operatorReports(l *converge.Look, _ map[string]any) *converge.Finding {
	who, tree := l.Keeper(), map[string]any(nil)
	if tree, _ = words.Tree(l.Obj); words.ComplaintIn(tree).Have != l.Judged.Have {
		return nil
	}
	c := words.ComplaintIn(tree)
	field, _, _ := strings.Cut(c.Have, "=")
	f := &converge.Finding{Says: l.Judged.Says, Words: c.Have + " " + c.Reason, Owner: who, State: converge.Waiting,
		Waits:  l.Field(field),
		Next:   converge.Does(who, "goes on with it"),
		Advice: []string{LogOf(l, who)}}
	if c.Message != "" {
		c.Message = plainly(c.Message)
		f.Says += ": " + c.Message
		f.Error = TextOnly(c.Message)
	}
	said := c.Message
	telling := words.Faulty.MatchString(c.Message) && strings.ContainsAny(strings.ReplaceAll(c.Message, "n't", ""), `:"'/`)
	if e := NewestWarning(l); e != nil && !telling {
		f.Says += "; its last warning, of " + words.Ago(l.Now.Sub(converge.Told(e))) + " ago: " + words.OneLine(e.Message)
		f.Error = EventFailure(e)
		said += " " + e.Message
	}
	said += besideIt(l, f, tree, c.Message, telling)
	named(l, f, tree, said)
	tooFewNodes(l, f, tree, said)
	lacksVariable(l, f, said)
	unknownHost(l, f, tree, said+" "+f.Aside)
	if len(f.Below) == 0 && !words.Faulty.MatchString(c.Message) {
		f.Says += untaken(l, f)
	}
	f.Says += heard(l, f, tree, c.Message)
	if name := halting(l, who, leaseOf(l, who)); name != "" {
		f.Aside = "its controller seems to be " + name + ", which is not ready now"
	}
	status, _ := tree["status"].(map[string]any)
	if at := words.NextTry(status); !at.IsZero() && len(f.Below) == 0 && f.State != converge.Blocked {
		if c.Final = false; at.After(l.Now) {
			f.State, f.Next = converge.BackingOff, converge.At(at, who, "tries again")
		} else if l.Now.Sub(at) > SlowStart {
			f.Says += "; it was to be tried again " + words.Ago(l.Now.Sub(at)) + " ago, and its status tells of no try since"
		}
	}
	c.Final = c.Final && !barredUntil(l, f, said)
	if c.Final {
		gaveUp(l, f, status, c.Reason)
	}
	return f
}

// gaveUp is of a controller that says that it failed. Whether it tries again by itself a word alone does not tell.
func gaveUp(l *converge.Look, f *converge.Finding, status map[string]any, reason string) {
	if pod := words.String(status, "podName"); pod != "" && len(f.Below) == 0 { // as Tekton's task runs have it
		f.Advice = []string{"read what its pod said: kubectl logs " + pod + " --all-containers --tail=100 -n " + l.Obj.GetNamespace()}
	}
	if why, command := LastFailed(l, l.Obj); why != "" && len(f.Below) == 0 {
		f.Says += "; " + why
		f.Advice = []string{"read what it said: " + command}
		if strings.Contains(why, "needs more memory") {
			f.Advice = []string{"raise the memory limit of that container, in what the pod is made from, or have it need less"}
		}
	}
	f.State, f.Next = converge.Failed, converge.PersonDoes("removes what makes it fail; %s does not go on by itself", f.Owner)
	runAgain(l, f)
	if i := l.Kind.Info(); strings.HasSuffix(i.GVK.Kind, "Run") && i.Namespaced && len(f.Below) == 0 && ownSpec(l) {
		name := l.Obj.GetName()
		f.Also = append(f.Also, converge.Again+": kubectl get "+i.GR().String()+" "+name+" -n "+l.Obj.GetNamespace()+
			" -o yaml | sed 's/name: "+name+"/name: "+name+"-again/' | kubectl apply -f -")
	}
	if reason == "" && !errands.MatchString(l.Kind.Info().GVK.Kind) &&
		!slices.ContainsFunc(ended, func(field string) bool { return words.String(status, field) != "" }) { // a word alone tells little
		f.Next = converge.PersonDoes("removes what makes it fail; whether %s tries again by itself is not known", f.Owner)
	}
}

// named adds what the object names that is not there or not well. What its controller speaks of is the cause.
func named(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	who := f.Owner
	if message != "" && (words.Faulty.MatchString(message) || !words.PassingWords.MatchString(message)) {
		f.Next = converge.Does(who, "tries again; what it says is likely for a person to see to")
	}
	withSecret(l, f, message)
	l.Workloads().Spoken(l, f, tree, message)
	overQuota(l, f, message)
	if lasting.MatchString(message) {
		f.Advice = append([]string{"delete what can't be changed, so that it is made anew; " +
			"what it has is lost, so look first whether that may be"}, f.Advice...)
	}
	rivals(l, f, message)
	brokenOff(l, f, message)
	defer lackBeyond(l, f, tree, message)
	defer spokenBounds(l, f, tree, message)
	defer noted(l, f)
	defer lookAt(l, f, message)
	defer chosen(l, f, tree, message)
	defer listedIll(l, f, tree, message)
	defer usedUp(l, f, tree, message)
	defer standing(l, f, tree, message)
	defer selecting(l, f, tree, message)
	defer spokenOf(l, f, message)
	defer outdated(l, f, tree, message)
	if lackAt(l, f, message) || lackPart(l, f, tree) {
		return
	}
	list := mentions.Of(l).Mentions(tree)
	apart := func(m mentions.Mention) bool { return !strings.Contains(message, m.Name) }
	said := slices.DeleteFunc(slices.Clone(list), apart)
	for _, m := range append(said, slices.DeleteFunc(list, func(m mentions.Mention) bool { return !apart(m) })...) { // what it speaks of first
		if toldIn(l, &m, message) {
			continue
		}
		says := m.Says(l.Obj.GetNamespace())
		vague := len(strings.Fields(message)) < 4 || counts.MatchString(message) || isSpokenOf(&m, message)
		if m.Loose && !strings.Contains(message, m.Name) && m.Obj == nil &&
			!(strings.HasSuffix(m.Field, "Names") && isSpokenOf(&m, message)) {
			continue
		}
		switch {
		case says != "" && !vague && !strings.Contains(message, m.Name) && lackValue(l, f, tree, message):
			return
		case says != "":
			f.Says += "; it " + says
			f.Waits, f.Next = m.Wait(), converge.PersonDoes("makes it, or names another one; %s goes on then", who)
			if vague || strings.Contains(message, m.Name) {
				f.State = converge.Blocked
			}
			return
		case (vague || strings.Contains(message, m.Name)) && !l.Health(m.Kind, m.Obj).Converged():
			f.Below, f.Told, f.State = []converge.Ref{m.Ref}, message, converge.Waiting
			f.Waits, f.Next = m.Wait(), converge.Does(who, "goes on when that is well")
			return
		}
	}
	lackValue(l, f, tree, message)
}

// noted adds what an annotation or label of the object names and is not there: who was to make what is missing, for one.
func noted(l *converge.Look, f *converge.Finding) {
	s := mentions.Of(l)
	gone := s.Noted()
	if len(gone) == 0 || len(f.Below) > 0 {
		return
	}
	if says := gone[0].Says(l.Obj.GetNamespace()); !strings.Contains(f.Says, says) {
		f.Says += "; it " + says
	}
	if near := l.NearTo(gone[0].Wait()); near != "" {
		f.Advice = append([]string{near}, f.Advice...)
	}
}

// beside tells of what else may be the cause: a workload that the operator brought about, by the label that it gives, and is not well, or
// an object that is named.
func beside(l *converge.Look, f *converge.Finding) {
	tree, _ := words.Tree(l.Obj)
	var bad []converge.Ref
	for _, m := range mentions.Of(l).Mentions(tree) {
		if m.Obj != nil && !l.Health(m.Kind, m.Obj).Converged() {
			bad = append(bad, m.Ref)
		}
	}
	marked := labelled(l)
	bad = append(bad, marked...)
	if len(bad) == 0 || len(f.Below) > 0 {
		return
	}
	if f.State == converge.Waiting && len(marked) > 0 && !words.Faulty.MatchString(words.ErrorText(f.Error)) {
		f.Below, f.Told, f.Aside = marked, words.ErrorText(f.Error), "" // it says no more than that something is not there yet
		return
	}
	if part, _ := words.Tree(l.Read.Lookup(bad[0].Kind, bad[0].NS, bad[0].Name)); f.State != converge.Blocked && f.Error != nil &&
		words.ComplaintIn(part).Message == f.Error.Message { // it but repeats what that says
		f.Below, f.Aside = bad[:1], ""
		return
	}
	if provided(l, f, tree) {
		return
	}
	if Symptom.MatchString(f.Says) && f.State != converge.Blocked && !bad[0].Kind.Info().Custom {
		f.Below, f.Told, f.Aside = bad, words.ErrorText(f.Error), ""
		return
	}
	if f.Aside != "" {
		return
	}
	for _, s := range l.Below(loop.KeyOf(l.Kind, l.Obj), bad[:1]) { // by the path: two that name each other have no end
		if !strings.Contains(f.Says, s.Object.Short()) {
			f.Aside = "what it has to do with is not well: " + s.Gap().Verdict
		}
	}
}

// Anything explains an object that no rule knows.
func Anything() []converge.Situation {
	return []converge.Situation{{Name: "Warned", Of: nil, See: func(l *converge.Look) *converge.Finding {
		e := NewestWarning(l)
		if e == nil {
			return nil
		}
		who := cmp.Or(cmp.Or(e.Source.Component, e.ReportingController), l.Keeper())
		f := &converge.Finding{Says: l.Judged.Says + ": its last warning, of " + words.Ago(l.Now.Sub(converge.Told(e))) + " ago: " +
			e.Reason + ": " + e.Message,
			Owner: who, State: converge.BackingOff, Error: EventFailure(e), Next: converge.Does(who, "tries again")}
		f.Advice = []string{"see all that it says: kubectl describe " + l.Kind.Info().GR().String() + " " + converge.Called(l)}
		if tree, custom := words.Tree(l.Obj); custom {
			f.Words, f.Advice = e.Reason, []string{LogOf(l, who)}
			named(l, f, tree, e.Message)
		}
		return f
	}}, {Name: "Unknown", Of: nil, See: func(l *converge.Look) *converge.Finding {
		return &converge.Finding{Says: l.Judged.Says}
	}}}
}
