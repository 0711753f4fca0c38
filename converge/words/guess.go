package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
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
	{"notfound", "names what is not there"}, {"notready", "is not ready"}, {"forbidden", "may not do what it wants"},
	{"timeout", "takes too long"},
	{"timedout", "took too long"}, {"expired", "has expired"},
	{"drifted", "differs from what it is to be"}, {"throttled", "is held back"}, {"exhausted", "is used up"},
	{"unreachable", "can't be reached"}, {"disconnected", "is not connected"}, {"stuck", "is stuck"}, {"exceeded", "is over a limit"},
	{"mismatch", "does not fit"}, {"overdue", "is late"},
}

// wrongFirst are beginnings of the types of conditions that tell of something that went wrong, as FailedScale.
var wrongFirst = pattern.New(`^(Failed|Cannot|Unable|Insufficient|Exceed(ed|s)|Unschedulable)([A-Z]|$)`)

// over finds types of what has come to an end, whichever.
var over = pattern.New(`^(Completed?|Finished|Done|Ended)$`)

// done finds types of that kind that tell of what was done.
var done = pattern.New(`^Failed(Over|Back)`)

// WrongBy finds what a word says went wrong; "" for one that says that nothing did, as NoError and NotFailed.
func WrongBy(word string) string {
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
	if strings.HasPrefix(word, "Conflicting") {
		return "is in conflict with another one"
	}
	for _, w := range wrong {
		if strings.HasSuffix(low, w.ending) {
			return w.says
		}
	}
	return ""
}

// amiss finds words in a message by which nothing else in a status says that something is wrong.
var amiss = pattern.New(`(?i)\b(failed|cannot|can't|unable to|not found|not present|denied|refused|timed out)\b`)

var (
	// lacking finds words that tell of a lack.
	lacking = pattern.New(`(?i)\b(no (valid|matching|suitable|usable) \w+|none of the|not? enough|insufficient|no space|exhausted)\b`)
	// activity finds types of conditions whose False says that nothing is to be done or is going on.
	activity = pattern.New(`(ing|Required|Needed|Pending|Detected|Requested)$|^(Update|Upgrade|New)\w*Available$`)
)

// failing finds results that are errors.
var failing = pattern.New(`(?i)^(failed|failure|error|invalid)\b`)

// nothing finds words by which a field says that there is no error.
var nothing = pattern.New(`(?i)^(none|null|nil|no error|ok|success|n/a|-)$`)

// notYet finds reasons that name what is not as it must be, as PGClusterNotShutdown; not those by which something need not be.
var notYet = pattern.New(`[a-z]Not(?:[A-MO-QS-Z]\w+|Running|Registered|Reachable|Ready)$`)

// wellWords are phases that say that all is well, or that somebody is at work.
var wellWords = []string{"ready", "running", "healthy", "active", "available",
	"succeeded", "completed", "bound", "ok", "synced", "deployed", "present", "green", "valid", "attached"}

// idle are phases that say that nothing is to be done.
var idle = []string{"idle", "paused", "suspended", "standby", "hibernated"}

// wrongIn says what a condition tells of that is wrong, "" if nothing is; well says that the whole is ready.
func wrongIn(typ string, c CustomCondition, well bool, status map[string]any) (says string) {
	switch {
	case c.Status == "True":
		typ = typ[strings.LastIndex(typ, "/")+1:] // as cilium.io/ConflictingClusterConfig
		switch says = WrongBy(typ); {
		case says == "" && wrongFirst.MatchString(typ) && !done.MatchString(typ):
			says = "fails"
		case typ == "Disabled" && Faulty.MatchString(c.Message): // not on purpose then
			says = "is disabled"
		case typ == "OutOfSync":
			says = "is not in step with what it stands for"
		case over.MatchString(typ): // as Completed for the reason Failed
			says = WrongBy(c.Reason)
		}
	case c.Status == "False" && (c.Severity == "Warning" || c.Severity == "Error") && c.Message != "":
		says = "is not well"
	case well:
	case c.Status == "False" && WrongBy(typ) == "" && c.Message != "":
		if says = WrongBy(c.Reason); says == "" && typ == "Progressing" && notYet.MatchString(c.Reason) && !SaysWell(status) {
			says = "does not go on"
		}
		lacks := lacking.MatchString(c.Message) && !activity.MatchString(typ)
		if says == "" && (lacks || amiss.MatchString(c.Message)) && !SaysWell(status) {
			says = "is not well"
		}
	case c.Status == "Unknown" && (WrongBy(c.Reason) != "" || strings.Contains(strings.ToLower(c.Reason+c.Message), "exceed")):
		says = "waits"
	case c.Status == "Unknown" && strings.HasPrefix(strings.ToLower(c.Message), "error") && murmurs(c) && !SaysWell(status):
		says = "can't be judged"
	}
	return says
}

// guessed finds a complaint by the words that operators use, where no convention tells: by a condition, by the phase, by an error
// or by a plain no. Of an object that says of itself that it is ready it finds none.
func guessed(tree map[string]any) Complaint {
	status, _ := tree["status"].(map[string]any)
	if slices.Contains(idle, strings.ToLower(String(status, "phase")+String(status, "state"))) {
		return Complaint{}
	}
	well := ConditionsIn(status)["Ready"].Status == "True"
	if c := likeliest(status, well); c.Says != "" || well {
		return c
	}
	message := MessageOf(status)
	for _, field := range []string{"phase", "state", "status"} {
		word := String(status, field)
		if says := WrongBy(word); says != "" {
			return Complaint{Says: says, Want: "status." + field + " another word", Have: "status." + field + "=" + word, Message: message}
		}
		if slices.Contains(wellWords, strings.ToLower(word)) {
			return Complaint{}
		}
	}
	ready, is := status["ready"].(bool)
	if gone, _ := status["failed"].(bool); gone {
		return Complaint{Says: "failed", Want: "status.failed=false", Have: "status.failed=true", Message: message}
	}
	for _, field := range []string{"lastError", "error", "lastErrorMessage"} {
		if why := String(status, field); why != "" && !(is && ready) && !nothing.MatchString(why) {
			return Complaint{Says: "has an error", Want: "status." + field + " empty", Have: "status." + field + " set", Message: why}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(status)) { // as lastReloadResult
		if why := String(status, field); strings.HasSuffix(field, "Result") && failing.MatchString(why) {
			return Complaint{Says: "failed at something", Want: "status." + field + " without an error", Have: "status." + field + " set",
				Message: why}
		}
	}
	for _, field := range []string{"ready", "available", "healthy", "valid", "applied"} {
		no, plain := status[field].(bool)
		if strings.EqualFold(String(status, field), "false") || plain && !no && field != "ready" {
			return Complaint{Says: "is not " + field, Want: "status." + field + "=true", Have: "status." + field + "=false",
				Message: message}
		}
	}
	if list, _ := status["errors"].([]any); len(list) > 0 || amiss.MatchString(message) || lacking.MatchString(message) {
		return Complaint{Says: "is not well", Want: "status without a complaint", Have: "status with a message", Message: message}
	}
	if is && !ready {
		return Complaint{Says: "is not ready", Want: "status.ready=true", Have: "status.ready=false", Message: message}
	}
	return Complaint{}
}

// likeliest is the complaint of the condition that tells the most, of those by which something is wrong: others may but follow from it.
func likeliest(status map[string]any, well bool) (best Complaint) {
	conds, most := ConditionsIn(status), 0
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		c := conds[typ]
		says := wrongIn(typ, c, well, status)
		if says == "" {
			continue
		}
		n := 2
		if Faulty.MatchString(c.Message) && strings.ContainsAny(c.Message, `:"'`) {
			n += 2
		}
		if follows.MatchString(c.Message) {
			n--
		}
		if n > most {
			most, best = n, Complaint{Says: says, Want: fmt.Sprintf("status.conditions[%s]=%s", typ, opposite(c.Status)),
				Have: fmt.Sprintf("status.conditions[%s]=%s", typ, c.Status), Message: cmp.Or(c.Message, c.Reason), Since: c.Since()}
		}
	}
	return best
}

// follows finds words by which a condition says that it but follows from something else.
var follows = pattern.New(`(?i)\b(due to|because of|depends on|has been stopped|can be caused by|check .*\blogs?)\b`)
