package converge

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/resource"
)

// What operators write who keep to no convention that is known is read by the words that all of them use for what went wrong.

// wrong are endings of types, reasons and phases that tell of something that went wrong, with what is said then.
var wrong = []struct{ ending, says string }{
	{"failed", "failed"}, {"failure", "failed"}, {"error", "has an error"}, {"errored", "has an error"}, {"partial", "is there in part"},
	{"errors", "has an error"}, {"failing", "fails"}, {"terminal", "has an error"}, {"recoverable", "has an error"},
	{"denied", "was denied"}, {"rejected", "was rejected"}, {"conflict", "is in conflict with another one"},
	{"unschedulable", "fits nowhere"}, {"failedload", "can't load what it is to serve"},
	{"invalid", "is not valid"},
	{"blocked", "is blocked"}, {"degraded", "is degraded"}, {"unhealthy", "is not healthy"}, {"unavailable", "is not available"},
	{"notfound", "names what is not there"}, {"forbidden", "may not do what it wants"}, {"timeout", "takes too long"},
	{"timedout", "took too long"},
}

// wrongBy finds what a word says went wrong; "" for one that says that nothing did, as NoError and NotFailed.
func wrongBy(word string) string {
	low := strings.ToLower(word)
	if rest, not := strings.CutPrefix(low, "not"); not && slices.Contains(wellWords, rest) {
		return "is not " + rest
	}
	if strings.HasPrefix(word, "No") && !strings.HasPrefix(low, "node") || strings.Contains(word, " ") {
		return ""
	}
	if rest, lacks := strings.CutPrefix(word, "Missing"); lacks && rest != "" {
		return "lacks something"
	}
	if strings.HasPrefix(word, "Invalid") {
		return "is not valid"
	}
	for _, w := range wrong {
		if strings.HasSuffix(low, w.ending) {
			return w.says
		}
	}
	return ""
}

// amiss finds words in a message by which nothing else in a status says that something is wrong.
var amiss = regexp.MustCompile(`(?i)\b(failed|cannot|can't|unable to|not found|not present|denied|refused|timed out)\b`)

// wellWords are phases that say that all is well, or that somebody is at work.
var wellWords = []string{"ready", "running", "healthy", "active", "available",
	"succeeded", "completed", "bound", "ok", "synced", "deployed", "present", "green", "valid", "attached"}

// idle are phases that say that nothing is to be done.
var idle = []string{"idle", "paused", "suspended", "standby", "hibernated"}

// guessed finds a complaint by the words that operators use, where no convention tells: by a condition, by the phase, by an error
// or by a plain no. Of an object that says of itself that it is ready it finds none.
func guessed(tree map[string]any) complaint {
	status, _ := tree["status"].(map[string]any)
	if slices.Contains(idle, strings.ToLower(text(status, "phase")+text(status, "state"))) {
		return complaint{}
	}
	conds := conditionsIn(status)
	well := conds["Ready"].Status == "True"
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		c, says := conds[typ], ""
		switch {
		case c.Status == "True":
			says = wrongBy(typ)
		case well:
		case c.Status == "False" && wrongBy(typ) == "" && c.Message != "":
			if says = wrongBy(c.Reason); says == "" && amiss.MatchString(c.Message) && !saysWell(status) {
				says = "is not well"
			}
		case c.Status == "Unknown" && (wrongBy(c.Reason) != "" || strings.Contains(strings.ToLower(c.Reason+c.Message), "exceed")):
			says = "waits"
		}
		if says != "" {
			return complaint{says: says, want: fmt.Sprintf("status.conditions[%s]=%s", typ, opposite(c.Status)),
				have: fmt.Sprintf("status.conditions[%s]=%s", typ, c.Status), message: cmp.Or(c.Message, c.Reason), since: c.since()}
		}
	}
	if well {
		return complaint{}
	}
	message := messageOf(status)
	for _, field := range []string{"phase", "state", "status"} {
		word := text(status, field)
		if says := wrongBy(word); says != "" {
			return complaint{says: says, want: "status." + field + " another word", have: "status." + field + "=" + word, message: message}
		}
		if slices.Contains(wellWords, strings.ToLower(word)) {
			return complaint{}
		}
	}
	ready, is := status["ready"].(bool)
	if gone, _ := status["failed"].(bool); gone {
		return complaint{says: "failed", want: "status.failed=false", have: "status.failed=true", message: message}
	}
	for _, field := range []string{"lastError", "error", "lastErrorMessage"} {
		if why := text(status, field); why != "" && !(is && ready) {
			return complaint{says: "has an error", want: "status." + field + " empty", have: "status." + field + " set", message: why}
		}
	}
	for _, field := range []string{"ready", "available", "healthy"} {
		if strings.EqualFold(text(status, field), "false") {
			return complaint{says: "is not " + field, want: "status." + field + "=true", have: "status." + field + "=false", message: message}
		}
	}
	if list, _ := status["errors"].([]any); len(list) > 0 || amiss.MatchString(message) {
		return complaint{says: "is not well", want: "status without a complaint", have: "status with a message", message: message}
	}
	if is && !ready {
		return complaint{says: "is not ready", want: "status.ready=true", have: "status.ready=false", message: message}
	}
	return complaint{}
}

// classless finds a class that the spec of a custom resource names and that does not exist, as gatewayClassName of the Gateway API: nobody
// takes such an object up, and nobody says so.
func (w *World) classless(obj resource.Object, tree map[string]any) (field string, class Ref) {
	spec, _ := tree["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		what, is := strings.CutSuffix(field, "Name")
		name := text(spec, field)
		if !is || name == "" || !strings.HasSuffix(what, "Class") {
			continue
		}
		for _, k := range w.Kinds.All() {
			if i := k.Info(); strings.EqualFold(i.GVK.Kind, what) && !i.Virtual && w.Sees(k) && w.Read.Lookup(k, "", name) == nil &&
				(!i.Namespaced || w.Read.Lookup(k, obj.GetNamespace(), name) == nil) {
				return "spec." + field, Ref{k, "", name}
			}
		}
	}
	return "", Ref{}
}

// portNotThere: a route names a port that its service does not have.
func portNotThere(l *look, _ map[string]any) *Finding {
	tree, _ := content(l.obj)
	for _, m := range l.search().mentions(tree) {
		if strings.HasPrefix(m.part, "port ") {
			return &Finding{Says: m.says(l.obj.GetNamespace()), Owner: person, State: Blocked, Waits: m.wait(),
				Next: does(person, "corrects the port here or there"), Advice: []string{"a route names the service's port, not that of its pods: " +
					"kubectl get service " + m.Name + " -n " + m.NS}}
		}
	}
	return nil
}

func classNotThere(l *look, _ map[string]any) *Finding {
	tree, _ := content(l.obj)
	field, class := l.classless(l.obj, tree)
	if field == "" {
		return nil
	}
	i := class.Kind.Info()
	return &Finding{Says: "names the " + i.Singular + " " + class.Name + ", which does not exist", Owner: person, State: Blocked,
		Waits: on("Object", class, ""), Next: does(person, "creates %s/%s, or names another one", i.Singular, class.Name),
		Advice: []string{"those that exist: kubectl get " + i.GR().String()}}
}
