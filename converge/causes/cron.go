package causes

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// crons are the ways in which a cron job does not start what is due.
func crons() []converge.Situation {
	return []converge.Situation{{Name: "RunMissed", Of: []resource.Kind{kinds.CronJobs}, See: runMissed},
		{Name: "RunMissed", Of: nil, See: unkept}}
}

// unkept is an object of a kind that users defined that has a schedule, and does not keep it.
func unkept(l *converge.Look) *converge.Finding {
	tree, custom := words.Tree(l.Obj)
	if !custom {
		return nil
	}
	says, schedule, due := health.Unkept(l.World, l.Kind, l.Obj, tree)
	if says == "" || l.Judged.Says != says {
		return nil
	}
	r := converge.RefTo(l.Kind, l.Obj)
	f := &converge.Finding{Says: says, Owner: l.Keeper(), State: converge.Waiting, Waits: l.Field("spec.schedule"),
		Next: converge.Does(l.Keeper(), "does it when it runs"), Advice: []string{general.LogOf(l, l.Keeper())}}
	if strings.HasPrefix(says, "never ") {
		f.State = converge.Blocked
		f.Next = converge.PersonDoes("corrects spec.schedule (minute, hour, day of the month, month, day of the week)")
		f.Advice = []string{"have it be the first of each month, if that is meant: " +
			converge.Merged(r, "0 0 1 * *", "spec", "schedule")}
		return f
	}
	f.Says += ": one was due at " + due.UTC().Format("2006-01-02 15:04 MST") + " by " + schedule
	if k, down := general.KeeperDown(l.World, l.Kind); down != nil {
		f.State, f.Below = converge.Missing, []converge.Ref{converge.RefTo(k, down)}
		f.Says += "; " + new(converge.ObjectOf(k, down)).Short() + ", which is to do it, does not run"
		if want, _ := l.Workloads().Copies(down); want == 0 {
			f.Below, f.Advice = nil, []string{"have it run: kubectl scale " + k.Info().Singular + " " + down.GetName() + " -n " +
				down.GetNamespace() + " --replicas=1"}
		}
	}
	return f
}

func runMissed(l *converge.Look) *converge.Finding {
	c := l.Obj.(*batchv1.CronJob)
	if j := health.LatestJob(l.World, c); l.Judged.Says == "has a last job that failed" {
		return &converge.Finding{Says: "waits for nothing: its last job, " + j.Name + ", failed", Owner: converge.Person,
			State: converge.Failed,
			Waits: converge.On("Object", converge.RefTo(kinds.Jobs, j), "status.conditions[Complete]"),
			Next:  converge.Does(l.Owner, "starts the next one when it is due"),
			Below: []converge.Ref{converge.RefTo(kinds.Jobs, j)}}
	}
	r, ok := l.Record(l.Owner, l.Kind, c)
	if at, note := health.MissedBy(l.World, c); !ok {
		r.Note, r.Next = note, at
	}
	if r.Note == "" {
		return nil
	}
	f := &converge.Finding{Says: "missed it: " + r.Note, State: converge.Waiting, Waits: converge.ForName("Time", "spec.schedule"),
		Next:   converge.At(r.Next, l.Owner, "starts the next one when it is due"),
		Advice: []string{"to run it now: kubectl create job --from=cronjob/" + c.Name + " " + c.Name + "-now -n " + c.Namespace}}
	if n := c.Spec.StartingDeadlineSeconds; n != nil && *n < 10 {
		f.Says += fmt.Sprintf("; its startingDeadlineSeconds is %d: with less than 10 a run is easily missed", *n)
		f.Advice = append([]string{"kubectl patch cronjob " + c.Name + " -n " + c.Namespace +
			` -p '{"spec":{"startingDeadlineSeconds":60}}'`},
			f.Advice...)
	}
	if zone := ptr.Deref(c.Spec.TimeZone, ""); zone != "" && r.Note == health.NoZone+zone {
		f.Says, f.Owner, f.State, f.Waits = "is never due: "+r.Note, converge.Person, converge.Blocked,
			l.Field("spec.timeZone")
		f.Next = converge.PersonDoes("corrects spec.timeZone")
		says, to := "name a zone of the IANA's list", "Etc/UTC"
		if near := zoneLike(zone); near != "" {
			says, to = "if "+near+" is meant", near
		}
		f.Advice = append([]string{says + ": kubectl patch cronjob " + c.Name + " -n " + c.Namespace +
			` -p '{"spec":{"timeZone":"` + to + `"}}'`}, f.Advice...)
	}
	if c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(c.Status.Active) > 0 {
		f.Says, f.Waits = "waits: "+r.Note, converge.On("Object", converge.Ref{Kind: kinds.Jobs, NS: c.Namespace,
			Name: c.Status.Active[0].Name}, "status.conditions[Complete]")
		f.Below = []converge.Ref{{Kind: kinds.Jobs, NS: c.Namespace, Name: c.Status.Active[0].Name}}
		f.Advice = []string{"if it hangs, end it, with its pods and what they logged: kubectl delete job " + c.Status.Active[0].Name + " -n " +
			c.Namespace}
	}
	return f
}

// zoneLike is a time zone that there is and from which a name is one letter away; "": none is. Zones can't be listed, only be asked for.
func zoneLike(name string) string {
	if len(name) > 40 || !strings.Contains(name, "/") {
		return ""
	}
	is := func(name string) bool {
		_, err := time.LoadLocation(name)
		return err == nil
	}
	for i := range len(name) + 1 {
		rest := name[i:]
		if len(rest) > 1 && is(name[:i]+rest[1:2]+rest[:1]+rest[2:]) {
			return name[:i] + rest[1:2] + rest[:1] + rest[2:]
		} else if rest != "" && is(name[:i]+rest[1:]) {
			return name[:i] + rest[1:]
		}
		for _, letter := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_" {
			if one := name[:i] + string(letter) + rest; is(one) {
				return one
			} else if rest != "" && is(name[:i]+string(letter)+rest[1:]) {
				return name[:i] + string(letter) + rest[1:]
			}
		}
	}
	return ""
}
