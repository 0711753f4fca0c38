package general

import (
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
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

// overQuota advises the quota that would do.
func overQuota(l *converge.Look, f *converge.Finding, message string) {
	if q := QuotaExceeded(l, message); q != nil && len(f.Below) == 0 && resource.Get(l.Read, core.ResourceQuotas, l.Obj.GetNamespace(),
		q.Waits.On.Name) != nil { // else it is one of another namespace
		f.State, f.Waits, f.Advice = converge.Blocked, q.Waits, append(q.Advice, f.Advice...)
	}
}
