package converge

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Advice ends in a command that can be pasted, or in the reason why there is none: a rule that has neither gets the command that holds for
// any object.

// ByNobody is the reason why no command can help with what goes on without anybody.
const ByNobody = "nothing is to be done: it goes on by itself"

// OnNode is the reason of what is done on a machine itself.
func OnNode(name string) string {
	return "it is done on node " + name + " itself, by who may log in there"
}

// onNode finds advice on what is done on a machine itself.
var onNode = pattern.New(`\bon (?:the|that) node\b|\b(?:the|its) node's\b|\bnode agent|\bruntime of |\bnode reaches `)

var (
	// atServer finds advice on what is done at a server of files.
	atServer = pattern.New(`\bserver exports\b|\bat the server\b|firewall lets it`)
	// elseHere finds advice on a machine beside which there is another way.
	elseHere = pattern.New(`, or (?:use|leave|have the pod) `)
)

// complete gives advice that has no command one that holds for where the object comes from, or the reason why none can help.
func (l *Look) complete(f *Finding, below bool) {
	sift(f)
	if f.NoCommand != "" || below && len(f.Advice) == 0 {
		return
	}
	if slices.ContainsFunc(f.Advice, convergence.HasCommand) {
		l.completeFirst(f)
		return
	}
	first := ""
	if len(f.Advice) > 0 {
		first = f.Advice[0]
	}
	switch node := l.node(); {
	case f.State == Progressing:
		f.NoCommand = ByNobody
	case atServer.MatchString(first):
		f.NoCommand = "it is set at that server, which is no part of the cluster"
	case node != "" && !elseHere.MatchString(first) && (onNode.MatchString(first) || strings.Contains(first, " on "+node)):
		f.NoCommand = OnNode(node)
	default:
		f.Advice = append(slices.Clip(f.Advice), cmp.Or(l.whereSaid(first), l.where(first == "")))
	}
}

// changes finds a command after which something is otherwise than it was.
var changes = pattern.New(`(?:^|: )(?:kubectl (?:patch|set|label|annotate|create|delete|scale|uncordon|taint|rollout) |echo '|` +
	`(?:kubectl get) .*\| kubectl )`)

// besides begins advice that says less than a step that changes something.
var besides = []string{"read the log of ", "look at the log of ", words.LookAt, "if it is mistyped, ", "correct it: kubectl edit "}

// resort finds advice on what is done if nothing else helps.
var resort = pattern.New(`^(?:or\b|if it will never|if it is no longer)`)

// sift puts first what an object would be called by its right name, and leaves out the log where a step is known that changes something.
func sift(f *Finding) {
	f.Advice = slices.Clone(f.Advice)
	slices.SortStableFunc(f.Advice, func(a, b string) int { return cmp.Compare(isNear(b), isNear(a)) })
	if slices.ContainsFunc(f.Advice, func(a string) bool {
		return changes.MatchString(a) && !resort.MatchString(a) && !strings.Contains(a, "--dry-run=client") // what is made anew leaves no log
	}) {
		f.Advice = slices.DeleteFunc(f.Advice, func(a string) bool {
			return slices.ContainsFunc(besides, func(begin string) bool { return strings.HasPrefix(a, begin) })
		})
	}
}

// isNear is 1 for advice to take what is there under a name like the one that is wanted.
func isNear(a string) int {
	if strings.HasPrefix(a, "there is ") && changes.MatchString(a) {
		return 1
	}
	return 0
}

// ofField finds advice on a field of the object itself.
var ofField = pattern.New(`^(?:name|set|correct|ask for|leave|lower|raise|choose|spell|write) `)

// completeFirst gives a first piece of advice the command, where it is about a field of an operator's object, and only vague ones have one.
func (l *Look) completeFirst(f *Finding) {
	if first := f.Advice[0]; !l.Kind.Info().Custom || !ofField.MatchString(first) || len(f.Below) > 0 || l.isOver() ||
		slices.ContainsFunc(f.Advice, func(a string) bool { return convergence.HasCommand(a) && !isVague(a) }) {
		return
	}
	k, obj := l.Template()
	if obj == nil || runsOnce.MatchString(k.Info().GVK.Kind) {
		return
	}
	f.Advice = slices.Clone(f.Advice)
	f.Advice[0] += ": kubectl edit " + RefTo(k, obj).Called()
}

// Complete gives advice on an object that has no gap what that on a gap has: the command that does it.
func (l *Look) Complete(f *Finding) {
	l.rename(f)
	l.complete(f, false)
}

// node is the machine that an object is, or runs on; "": none.
func (l *Look) node() string {
	if l.Kind == core.Nodes {
		return l.Obj.GetName()
	}
	if p, is := l.Obj.(*corev1.Pod); is {
		return p.Spec.NodeName
	}
	return ""
}

// where is the command by which a person changes an object: at what it is made from.
func (l *Look) where(silent bool) string {
	if silent || l.Kind == core.Nodes {
		return "see all that is said of it: kubectl describe " + word(l.Kind) + " " + Called(l)
	}
	if k, obj := l.Template(); obj != nil && !runsOnce.MatchString(k.Info().GVK.Kind) {
		at := &Look{World: l.World, Kind: k, Obj: obj}
		if at.Obj == l.Obj {
			return "change it: kubectl edit " + word(k) + " " + Called(at)
		}
		return "change it in " + new(at.Object()).Short() + ", which makes it: kubectl edit " + word(k) + " " + Called(at)
	}
	top := l
	for range MaxDepth {
		by := top.madeBy()
		if by == nil {
			break
		}
		top = by
	}
	if l.Kind == core.PersistentVolumeClaims {
		return "change it, as far as that may be: kubectl edit pvc " + Called(l)
	}
	if top.Kind.Info().Custom && top != l && !runsOnce.MatchString(top.Kind.Info().GVK.Kind) {
		return "change it in " + new(top.Object()).Short() + ", for which it is made: kubectl edit " + word(top.Kind) + " " + Called(top)
	}
	return "most of it can't be changed: make it anew, from a copy of it: kubectl get " + word(top.Kind) + " " + Called(top) + " -o yaml"
}

// inObject finds an object in advice that is about it.
var inObject = pattern.New(`\b(?:in|of|to) ([a-z]+)/([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// whereSaid is the command by which a person changes the object that a piece of advice is about; "": it speaks of none.
func (l *Look) whereSaid(advice string) string {
	m := inObject.FindStringSubmatch(advice)
	if m == nil || strings.HasPrefix(advice, "there is ") {
		return ""
	}
	for _, k := range l.Kinds.All() {
		ns := l.Obj.GetNamespace()
		if !k.Info().Namespaced {
			ns = ""
		}
		if k.Info().Singular != m[1] || k == core.Pods || k == l.Kind && m[2] == l.Obj.GetName() || l.Read.Lookup(k, ns, m[2]) == nil {
			continue
		}
		return "change it there: kubectl edit " + word(k) + " " + m[2] + In(ns)
	}
	return ""
}

// word is a kind as a command names it.
func word(k resource.Kind) string {
	if k.Info().Custom {
		return k.Info().GR().String()
	}
	return k.Info().Singular
}
