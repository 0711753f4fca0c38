package general

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Refused limits a rule to objects whose loop failed in its last look, and gives it the error.
func Refused(see func(l *converge.Look, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		err := Refusal(l)
		if err == nil {
			return nil
		}
		f := see(l, err.Message)
		if f != nil {
			f.Error = err
			if f.State == "" {
				f.State = converge.Blocked
			}
			if f.Next.What == "" {
				f.Next.What = "tries again"
			}
			if r, ok := l.Record(l.Owner, l.Kind, l.Obj); ok && (f.Next.Who == "" || f.Next.Who == l.Owner) {
				f.Next.At = converge.Stamp(r.Next)
			}
		}
		return f
	}
}

// Refusal is the last error of the object's loop: of the engine's record, of a condition, or of an event.
func Refusal(l *converge.Look) *convergence.Failure {
	if r, ok := l.Record(l.Owner, l.Kind, l.Obj); ok {
		return converge.FailureOf(r)
	}
	return l.Workloads().Failure(l)
}

// EventFailure is an event as an error.
func EventFailure(e *corev1.Event) *convergence.Failure {
	f := &convergence.Failure{Message: e.Message, Count: int64(max(e.Count, 1)), Last: converge.Stamp(converge.Told(e))}
	first := e.FirstTimestamp.Time
	if first.IsZero() {
		first = e.CreationTimestamp.Time
	}
	if e.Series != nil {
		f.Count = int64(e.Series.Count)
	}
	f.First = converge.Stamp(first)
	return f
}

// Quoted is the first text in quotes after a mark.
func Quoted(s, mark string) string {
	_, rest, ok := strings.Cut(s, mark)
	if !ok {
		return ""
	}
	m := inQuotes.FindStringSubmatch(rest)
	if m == nil {
		return ""
	}
	return m[1]
}

var inQuotes = pattern.New(`["']([^"']+)["']`)

// Namespaced refers to an object of a kind beside the one that is looked at.
func Namespaced(l *converge.Look, k resource.Kind, name string) converge.Ref {
	return converge.Ref{Kind: k, NS: l.Obj.GetNamespace(), Name: name}
}

// QuotaExceeded has the sums of the refusal, not of the quota's status, which may have moved on since.
func QuotaExceeded(l *converge.Look, text string) *converge.Finding {
	name := words.Between(text, "exceeded quota: ", ",")
	if name == "" {
		return nil
	}
	r := Namespaced(l, core.ResourceQuotas, name)
	raise := "raise the quota: kubectl edit resourcequota " + name + " -n " + r.NS
	if hard := enough(quotaSum(text), max(l.Workloads().Short(l.Obj), 1)); hard != "" {
		raise = "raise the quota to what is wanted in all: kubectl patch resourcequota " + name + " -n " + r.NS +
			` --type=merge -p '{"spec":{"hard":{` + hard + `}}}'`
	}
	f := &converge.Finding{Says: "can't create more: the quota " + name + " is used up (" + quotaSum(text) + ")",
		Waits:  converge.On("Quota", r, "spec.hard"),
		Next:   converge.Does(l.Owner, "tries again; it succeeds once the quota has room"),
		Advice: []string{raise, "or free some of what it counts: kubectl describe resourcequota " + name + " -n " + r.NS}}
	if q := resource.Get(l.Read, core.ResourceQuotas, r.NS, name); q != nil && slices.Contains(q.Spec.Scopes,
		corev1.ResourceQuotaScopeBestEffort) {
		f.Says += "; it counts pods without requests and limits alone"
		if k, top := l.Template(); top != nil {
			f.Advice = append([]string{"give its containers requests, so that it does not count them: kubectl set resources " +
				k.Info().Singular + "/" + top.GetName() + " -n " + r.NS + " --requests=cpu=100m,memory=256Mi"}, "or "+raise)
		}
	}
	return f
}

// enough are the amounts, as JSON, that a quota needs for n more of what it refused, by the figures of its refusal; "": they have none.
func enough(sum string, n int32) string {
	all := [3]map[string]string{}
	for i, mark := range []string{"requested: ", "used: ", "limited: "} {
		all[i] = map[string]string{}
		for _, part := range strings.Split(words.Between(sum+", \x00", mark, ", "), ",") {
			if name, amount, is := strings.Cut(strings.TrimSpace(part), "="); is {
				all[i][name] = amount
			}
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all[0])) {
		asks, err := resource.ParseQuantity(all[0][name])
		used, err2 := resource.ParseQuantity(all[1][name])
		limit, err3 := resource.ParseQuantity(all[2][name])
		if errors.Join(err, err2, err3) != nil {
			return ""
		}
		for range min(n, 1000) {
			used.Add(asks)
		}
		if used.Cmp(limit) > 0 {
			parts = append(parts, `"`+name+`":"`+used.String()+`"`)
		}
	}
	return strings.Join(parts, ",")
}

// quotaSum is the part of the message that has the figures.
func quotaSum(text string) string {
	for i := range text {
		if len(text[i:]) > 10 && text[i:i+10] == "requested:" {
			return text[i:]
		}
	}
	return text
}

// TextOnly is an error of which no more than the text is known.
func TextOnly(text string) *convergence.Failure {
	if text == "" {
		return nil
	}
	return &convergence.Failure{Message: text}
}
