package general

import (
	"strings"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// again finds the time before which somebody does not want to be asked again.
var again = pattern.New(`(?i)retry[- ]after:? (\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d) ?(?:UTC|Z)`)

// retryAfter is that time; zero: nobody tells one.
func retryAfter(message string) (at time.Time) {
	if m := again.FindStringSubmatch(message); m != nil {
		at, _ = time.Parse(time.DateTime, m[1]+" "+m[2])
	}
	return at
}

// barredUntil has a finding wait for the time that those who refuse a controller name.
func barredUntil(l *converge.Look, f *converge.Finding, said string) bool {
	at := retryAfter(said)
	if !at.After(l.Now) || len(f.Below) > 0 {
		return false
	}
	f.State, f.Next = converge.BackingOff, converge.At(at, f.Owner, "may ask again; before, it is refused")
	f.Advice, f.NoCommand = []string{"wait until then, or ask for something to which that limit does not apply"},
		"the limit is that of who refuses it, and ends by itself"
	return true
}

// ungranted advises the ReferenceGrant that an object of the Gateway API lacks.
func ungranted(l *converge.Look, f *converge.Finding, tree map[string]any, c *words.Complaint) {
	if !strings.Contains(c.Message, "ReferenceGrant") && c.Reason != "RefNotPermitted" {
		return
	}
	where, what := "the namespace that it refers to", ""
	for _, m := range mentions.Of(l).Mentions(tree) {
		if what == "" && m.NS != "" && m.NS != l.Obj.GetNamespace() && m.Kind.Info().GVK.Kind != "Gateway" {
			where = "namespace " + words.Word(m.NS)
			what = ", to " + m.Kind.Info().Singular + "/" + words.Word(m.Name) + granting(l, m.Ref)
		}
	}
	f.Advice = []string{"in " + where + ", create a referencegrant from namespace " + l.Obj.GetNamespace() + what}
}

// granting is the command that lets objects of one kind and namespace refer to an object of another.
func granting(l *converge.Look, to converge.Ref) string {
	from, of, k := l.Kind.Info().GVK, to.Kind.Info().GVK, KindNamed(l.World, "gateway.networking.k8s.io", "ReferenceGrant")
	if k == nil {
		return ""
	}
	command := Made(k.Info().GVK.GroupVersion().String(), "ReferenceGrant", to.NS, l.Obj.GetNamespace()+"-to-"+to.Name, map[string]any{
		"from": []map[string]string{{"group": from.Group, "kind": from.Kind, "namespace": l.Obj.GetNamespace()}},
		"to":   []map[string]string{{"group": of.Group, "kind": of.Kind, "name": to.Name}}})
	if command == "" {
		return ""
	}
	return ": " + command
}
