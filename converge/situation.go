package converge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Latent is the state of what is stuck only when somebody asks for it: nothing is wrong yet.
const Latent = "Latent"

// Resting is the state of an object that does nothing, on purpose: it agrees with its spec. Only who asks for it by name hears of it.
const Resting = "Resting"

// The states of who owns a gap.
const (
	Queued      = "Queued"      // its turn comes
	Running     = "Running"     // it works on it right now
	BackingOff  = "BackingOff"  // it failed and tries again at a time
	Waiting     = "Waiting"     // something else must change first, and somebody is on it
	Blocked     = "Blocked"     // something stands in the way that only a person or another system can take away
	Missing     = "Missing"     // nobody is there to close the gap
	Failed      = "Failed"      // it gave up
	Progressing = "Progressing" // all goes well; it takes its time
)

// Who makes a move when no loop does.
const (
	Person    = "a person"
	APIServer = "the API server"
)

// A Situation is one way in which objects get stuck: a rule that recognizes it.
type Situation struct {
	Name string
	Of   []resource.Kind // whose objects; nil: of any kind
	// See returns what it found, or nil when this is not the situation. It only looks; it must be quick.
	See func(l *Look) *Finding
}

// A Finding says why an object is not what it should be. What is left empty is filled in from the situation, the
// owning loop's record and the object's health.
type Finding struct {
	Says   string // completes a sentence whose subject is the object: "can't pull the image x"
	Owner  string // whose move it is; "": the loop that owns the kind
	State  string
	Waits  *convergence.Wait
	Next   convergence.Next
	Error  *convergence.Failure
	Advice []string
	Below  []Ref // where the cause lies, if not here

	Aside string   // what else matters to the one who waits, of the object itself
	Told  string   // what the object's own controller last said of it: it may be the cause, whatever is found
	Also  []string // advice that holds whatever the cause below is
	Words string   // the field and the reason that the controller's words stand by

	NoCommand string // why no command can help, where the advice has none
}

// A Ref names an object that may not exist.
type Ref struct {
	Kind     resource.Kind
	NS, Name string
}

// RefTo refers to an object.
func RefTo(k resource.Kind, obj resource.Object) Ref {
	return Ref{k, obj.GetNamespace(), obj.GetName()}
}

// Refs names objects of one kind.
func Refs[T resource.Object](k resource.Kind, list []T) (out []Ref) {
	for _, obj := range list {
		out = append(out, RefTo(k, obj))
	}
	return out
}

// On waits for an object, or a field of it.
func On(typ string, r Ref, field string) *convergence.Wait {
	o := Named(r.Kind, r.NS, r.Name)
	return &convergence.Wait{Type: typ, On: &o, Field: field}
}

// Field waits for a field of the object that is looked at.
func (l *Look) Field(field string) *convergence.Wait { return On("Field", RefTo(l.Kind, l.Obj), field) }

// ForName waits for something that is no object.
func ForName(typ, name string) *convergence.Wait { return &convergence.Wait{Type: typ, Name: name} }

// Does names who makes the next move as soon as something changes.
func Does(who, format string, args ...any) convergence.Next {
	return convergence.Next{Who: who, What: fmt.Sprintf(format, args...)}
}

// PersonDoes names what a person does next.
func PersonDoes(format string, args ...any) convergence.Next { return Does(Person, format, args...) }

// At is does with a time; the zero time is none.
func At(when time.Time, who, format string, args ...any) convergence.Next {
	n := Does(who, format, args...)
	n.At = Stamp(when)
	return n
}

// Stamp is a time as the API has it; the zero time is none.
func Stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// FailureOf is the last error of a loop's record; nil when the last look went well.
func FailureOf(r loop.Record) *convergence.Failure {
	if r.Fails == 0 {
		return nil
	}
	return &convergence.Failure{Message: r.LastErr, Count: int64(r.Fails), First: Stamp(r.FirstFail), Last: Stamp(r.LastFail)}
}

// fill completes a finding.
func (l *Look) fill(name string, f *Finding) {
	if f.Owner == "" {
		f.Owner = l.Owner
	}
	if f.Owner == "" {
		f.Owner = l.Keeper()
	}
	r, known := l.Record(f.Owner, l.Kind, l.Obj)
	if known && f.Error == nil {
		f.Error = FailureOf(r)
	}
	if f.State == "" {
		f.State = stateOf(r, known)
	}
	if f.Next.Who == "" {
		f.Next.Who = f.Owner
	}
	if f.Next.At == nil && known && f.Next.Who == f.Owner && f.State == BackingOff {
		f.Next.At = Stamp(r.Next)
	}
	if f.Next.What == "" {
		f.Next.What = "looks again when something changes"
		if f.Next.At != nil {
			f.Next.What = "tries again"
		}
	}
	if near := l.NearTo(f.Waits); near != "" {
		f.Advice = append([]string{near}, f.Advice...)
	}
	if l.Callers == nil {
		f.Advice = abroad(f.Advice)
	}
	if f.Says == "" {
		f.Says = l.Judged.Says
	}
	f.Says = words.OneLine(f.Says)
	l.byMaker(f)
	l.lookUp(f)
	byWords(l, f)
	if only := l.OnlyOne(f.Waits); only != "" && !strings.Contains(only, "/"+l.Obj.GetName()+" alone") &&
		!strings.Contains(strings.Join(f.Advice, "\n"), "there is ") && len(f.Below) == 0 {
		f.Advice = append([]string{only}, f.Advice...)
	}
	l.bareMake(f)
	makeSpace(l, f)
	l.rename(f)
	l.keptElsewhere(f)
}

var (
	// absent finds an object of a group in anybody's words: ProviderConfig.aws.upbound.io "default" not found.
	absent = pattern.New(`(?:^|[^\w-])([A-Za-z-]+\.[a-z0-9-]+(?:\.[a-z0-9-]+)+) \\?"([^"\\]+)\\?" not found`)
	// stored finds a definition that lacks a version in which objects may be stored still.
	stored = pattern.New(`"([a-z0-9.-]+)\\?" is invalid: status\.storedVersions\[\d+\]: Invalid value: \\?"(\w+)\\?": must appear`)
	// roleOf finds the ClusterRole by which somebody says that he lacks rights.
	roleOf = pattern.New(`(?:privileges|permissions?|rights)\b.*ClusterRole ['"]([a-z0-9:.-]+)['"]`)
	// barred finds a service account that may not do what it wants.
	barred = pattern.New(`[Uu]ser \\?"?(system:serviceaccount:([a-z0-9-]+):[a-z0-9.-]+)\\?"? cannot`)
	// spaceless finds a namespace that somebody says is not there.
	spaceless = pattern.New(`\bnamespaces? \\?["']([a-z0-9-]+)\\?["'] not found|\bnamespace ([a-z0-9-]+) (?:does not exist|not found)`)
	// served finds a service of the cluster in an address that was asked in vain.
	served = pattern.New(`https://([a-z0-9-]+)\.([a-z0-9-]+)\.svc[.:/].+`)
)

// lookUp advises to look for what the words of the finding say is not found.
func (l *Look) lookUp(f *Finding) {
	command := ""
	if m := absent.FindStringSubmatch(f.Says + " " + f.Told); m != nil {
		l.nearSaid(f, m[1], m[2])
		command = "if it is mistyped, those that exist: kubectl get " + strings.ToLower(m[1]) + " -A"
	} else if m := stored.FindStringSubmatch(f.Says); m != nil {
		command = "write all its objects anew, in the version that is stored now; then take " + m[2] + " out of status.storedVersions: " +
			"kubectl edit crd " + m[1] + " --subresource=status"
	} else if m := roleOf.FindStringSubmatch(f.Says); m != nil {
		command = "give it those rights by that ClusterRole, or by one with the labels that are aggregated to it: kubectl get clusterrole " +
			m[1] + " -o yaml"
	} else if m := barred.FindStringSubmatch(f.Says); m != nil && !strings.Contains(strings.Join(f.Advice, "\n"), "can-i --list") {
		command = "give that service account the right; what it has: kubectl auth can-i --list --as=" + m[1] + " -n " + m[2]
	} else if m := served.FindStringSubmatch(f.Says); m != nil && m[1] != "kubernetes" && !strings.Contains(f.Says, "x509: ") {
		command = "look at the service behind it: kubectl get service,endpointslices -n " + m[2]
	}
	if r, ok := LackedRight(f.Says); ok && l.serves(&r) && !strings.Contains(strings.Join(f.Advice, "\n"), "kubectl set serviceaccount ") {
		defer func() {
			f.Advice = slices.DeleteFunc(f.Advice, func(a string) bool { return strings.Contains(a, "what it has: kubectl auth can-i ") })
			f.Advice = append([]string{cmp.Or(l.misbound(f, &r), r.Grant())}, f.Advice...)
		}()
	}
	if command != "" && (!strings.Contains(strings.Join(f.Advice, "\n"), "kubectl get ") ||
		isVague(f.Advice[0])) {
		f.Advice = append([]string{command}, f.Advice...)
	}
}

// makeSpace advises to make the namespace that the words of the finding say is not there.
func makeSpace(l *Look, f *Finding) {
	m := spaceless.FindStringSubmatch(f.Says)
	if m == nil || strings.Contains(strings.Join(f.Advice, "\n"), "kubectl create namespace ") {
		return
	}
	if k, ok := l.Kinds.GR(schema.GroupResource{Resource: "namespaces"}); ok && l.Sees(k) && l.Read.Lookup(k, "", m[1]+m[2]) == nil {
		f.Advice = append([]string{"if it is meant, make it: kubectl create namespace " + m[1] + m[2]}, f.Advice...)
	}
}

// nearSaid advises to name the object that is there in place of one that the words say is not, by Kind.group and name.
func (l *Look) nearSaid(f *Finding, kind, name string) {
	word, group, _ := strings.Cut(kind, ".")
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if i.GVK.Group != group || !strings.EqualFold(i.GVK.Kind, word) && !strings.EqualFold(i.Plural, word) {
			continue
		}
		ns := l.Obj.GetNamespace()
		if !i.Namespaced {
			ns = ""
		}
		wait := On("Object", Ref{k, ns, name}, "")
		near := cmp.Or(l.NearTo(wait), l.OnlyOne(wait))
		if near != "" && !strings.Contains(strings.Join(f.Advice, "\n"), near) {
			if m := proposed.FindStringSubmatch(near); m != nil && m[1] == "" && strings.HasSuffix(near, nameIt) {
				if command := l.renaming(name, m[2], false, name, ""); command != "" {
					near += ": " + command
				}
			}
			f.Advice = append([]string{near}, f.Advice...)
		}
		return
	}
}

// stateOf reads a loop's state off its record.
func stateOf(r loop.Record, known bool) string {
	switch {
	case !known:
		return Waiting
	case r.Running || r.State == "running":
		return Running
	case r.Fails > 0:
		return BackingOff
	case r.State == "queued":
		return Queued
	}
	return Waiting
}

// abroad has advice as it holds on a cluster that is perhaps no kloop.
func abroad(list []string) (out []string) {
	for _, a := range list {
		switch {
		case strings.Contains(a, "kloop image load FILE"):
			a = strings.Replace(a, "kloop image load FILE", "ctr -n k8s.io images import FILE, on the node", 1)
		case strings.Contains(a, "kloop up") || strings.Contains(a, "docs/differences.md"):
			continue
		}
		out = append(out, strings.TrimSuffix(a, ": kloop node"))
	}
	return out
}
