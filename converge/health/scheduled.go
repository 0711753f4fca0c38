package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	kindsbatch "github.com/kloop-dev/kloop/kinds/batch"
	"github.com/kloop-dev/kloop/resource"
)

// Custom judges objects of kinds that users defined, those among them that have something done by a schedule, as Velero's backups.
func Custom(w *converge.World, k resource.Kind, obj resource.Object, tree map[string]any) converge.Health {
	h := general.Custom(w, k, obj, tree)
	if !h.Converged() {
		return h
	}
	if says, schedule, since := Unkept(w, k, obj, tree); says != "" {
		return converge.Health{Says: says, Want: "spec.schedule=" + schedule, Have: "nothing that was done by it since", Since: since}
	}
	return h
}

// farthest: a program whose zone is not known may take hours for those of another one.
const farthest = 15 * time.Hour

// Unkept tells of an object that does nothing at a time that its schedule has; "": it does, or has none.
func Unkept(w *converge.World, k resource.Kind, obj resource.Object, tree map[string]any) (says, schedule string, since time.Time) {
	spec, _ := tree["spec"].(map[string]any)
	schedule = words.String(spec, "schedule")
	if schedule == "" || obj.GetDeletionTimestamp() != nil {
		return "", "", since
	}
	zone, slack := time.UTC, farthest
	if in, err := time.LoadLocation(cmp.Or(words.String(spec, "timeZone"), words.String(spec, "timezone"))); err == nil && in != time.UTC {
		zone, slack = in, time.Hour
	}
	s, err := kindsbatch.ParseSchedule(schedule, zone)
	if stays, _ := general.LeftAlone(k, obj, tree); err != nil || stays != "" {
		return "", "", since
	}
	if !strings.HasPrefix(schedule, "@") && s.Next(w.Now).IsZero() {
		return "never does what it is for: no day is one of its schedule " + schedule, schedule, obj.GetCreationTimestamp().Time
	}
	last := time.Time{}
	status, _ := tree["status"].(map[string]any)
	if active, _ := status["active"].([]any); len(active) > 0 { // what began before may have to end first
		return "", "", since
	}
	for _, field := range slices.Sorted(maps.Keys(status)) {
		at, err := time.Parse(time.RFC3339, words.String(status, field))
		if strings.HasPrefix(field, "last") && err == nil && at.After(last) {
			last = at
		}
	}
	if due := s.Next(latest(last, converge.Changed(obj))); !last.IsZero() && !due.IsZero() && !w.Early(due.Add(slack)) {
		return "did not do what was due", schedule, due
	}
	return "", "", since
}
