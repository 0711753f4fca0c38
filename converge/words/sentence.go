package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
)

// is says that a condition is a bad one.
func (b badCondition) is(c CustomCondition) bool {
	return c.Status == b.value && (b.reason == "" || b.reason == c.Reason)
}

// another finds the conditions that one which sums others up points at.
var another = pattern.New(`(?:^|, )([A-Z]\w+)=(False|Unknown)`)

// Faulty finds words by which a controller says that it can't go on until somebody corrects or makes something.
var Faulty = pattern.New(`(?i)not found|n[o']t (exist|find|defined)|no such|not permitted|must (be|have|not)|invalid|` +
	`not supported|unsupported|unschedulable|aborted|insufficient|not enough|unknown field|denied|forbidden|unauthorized|` +
	`authentication|no matching|not match|incorrect|doesn't have|conflict|missing|refused|` +
	`timed out|cannot|can't|unable|failed|failure|unrecoverable|error|exceeded|no compatible|unexpected|crash|too long|overlap|malformed`)

// PassingWords finds words by which a controller says that it is at work, or waits for what somebody else is at.
var PassingWords = pattern.New(`(?i)\b(wait|waiting|progress|creating|being|pending|retry|retrying|starting|working|provisioning|` +
	`deleting|unready|issuing|not yet|locked|busy)\b`)

// Plight says that a condition tells of something that is wrong.
func Plight(typ string, c CustomCondition) bool {
	bad := WrongBy(typ) != "" || typ != "Reconciling" && slices.ContainsFunc(badConditions, func(b badCondition) bool {
		return b.typ == typ && b.value == "True"
	})
	return c.Status == "True" && bad || c.Status == "False" && !bad
}

// murmurs says that a condition which is neither good nor bad by its value tells of a fault: what could not be found out, or is tried again
// though it says that all goes on.
func murmurs(c CustomCondition) bool {
	return Faulty.MatchString(c.Message) && (strings.Contains(c.Message, ": ") && (c.Status == "Unknown" || c.Status == "True" &&
		again.MatchString(c.Reason)) || c.Status == "True" && vain.MatchString(c.Reason))
}

var (
	// vain finds reasons of what looks for something in vain.
	vain = pattern.New(`^(Cant|Cannot|CouldNot)[A-Z]`)
	// tally finds messages that count parts by how they are, and say no more: 1 ready, 0 with failure.
	tally = pattern.New(`^\d+ [\w ]+(, \d+ [\w ]+)+$`)
)

// again finds reasons of what is tried again since it failed.
var again = pattern.New(`(?i)^(retry|retries|backing ?off|backoff)`)

// telling is the message of a condition or, where that only points at other conditions, theirs.
func telling(conds map[string]CustomCondition, c CustomCondition) string {
	first := ""
	for _, m := range another.FindAllStringSubmatch(c.Message, -1) {
		o := conds[m[1]]
		if first = cmp.Or(first, o.Message); WrongBy(o.Reason) != "" && o.Message != "" {
			return o.Message
		}
	}
	if first != "" {
		return first
	}
	for _, typ := range slices.Sorted(maps.Keys(conds)) { // one that gives the same reason may say more
		if o := conds[typ]; c.Reason != "" && o.Reason == c.Reason && o.Status == c.Status && len(o.Message) > len(c.Message) {
			return o.Message
		}
	}
	if o := conds[c.Reason]; Plight(c.Reason, o) && o.Message != "" { // the reason is another condition
		return o.Message
	}
	counted := tally.MatchString(c.Message)
	if counted || !Faulty.MatchString(c.Message) || strings.Contains(c.Message, "attempt") { // another one may say what it is
		for _, typ := range slices.Sorted(maps.Keys(conds)) {
			o := conds[typ]
			if !Plight(typ, o) && !murmurs(o) || o.Message == c.Message || strings.Contains(c.Message, o.Message) ||
				c.Message != "" && !Faulty.MatchString(o.Message) {
				continue
			}
			if !counted && Faulty.MatchString(c.Message) {
				return c.Message + ": " + o.Message
			}
			return o.Message
		}
	}
	if c.Message != "" && c.Status != "Unknown" {
		return c.Message
	}
	for _, bad := range badConditions {
		if o := conds[bad.typ]; bad.is(o) && o.Message != "" && o.Message != c.Message {
			return o.Message
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		if o := conds[typ]; c.Status == "Unknown" && o.Status == "Unknown" && o.Message != "" && o.Message != c.Message {
			return o.Message
		}
	}
	return c.Message
}

// restates says that the message of a condition is but its reason, spelled out.
func restates(c CustomCondition) bool {
	return strings.EqualFold(strings.ReplaceAll(c.Message, " ", ""), c.Reason)
}

// mostTold bounds how many details of a status are repeated: any may be the root of the others.
const mostTold = 5

// hint finds more words for a phase that says too little: of a part of the status, or of a condition.
func hint(status map[string]any) string {
	details, _ := status["details"].(map[string]any) // Ceph's
	var told []string
	for _, name := range slices.Sorted(maps.Keys(details)) {
		if d, _ := details[name].(map[string]any); d["severity"] == status["health"] && d["message"] != nil {
			told = append(told, fmt.Sprint(d["message"]))
		}
	}
	if len(told) > 0 {
		return strings.Join(told[:min(len(told), mostTold)], "; ")
	}
	if m := unsynced(status); m != "" {
		return m
	}
	parts, _ := status["resources"].([]any) // what an Application of Argo CD is made of
	for _, item := range parts {
		part, _ := item.(map[string]any)
		if h, _ := part["health"].(map[string]any); h["status"] == "Degraded" || h["status"] == "Missing" {
			return strings.TrimSuffix(fmt.Sprintf("%s/%s: %s", strings.ToLower(String(part, "kind")), String(part, "name"),
				cmp.Or(String(h, "message"),
					strings.ToLower(String(h, "status")))), ": ")
		}
	}
	conds := ConditionsIn(status)
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		if c := conds[typ]; c.Status == "False" && strings.Contains(c.Message, " ") {
			return c.Message
		}
	}
	return badParts(status)
}

// badParts lists the parts in a list of the status whose word says that they are not well.
func badParts(status map[string]any) string {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		list, _ := status[field].([]any)
		var bad []string
		for i, item := range list {
			part, _ := item.(map[string]any)
			word := cmp.Or(String(part, "state"), String(part, "phase"))
			if WrongBy(word) != "" || badPhases[strings.ToLower(word)].says != "" {
				bad = append(bad, nameOfPart(part, i)+" "+word)
			}
		}
		if len(bad) > 0 && !PastFields.MatchString(field) {
			return "of its " + field + ": " + strings.Join(bad[:min(len(bad), mostTold)], ", ")
		}
	}
	return ""
}

// CountsOf words the numbers of failures that a status has: errors=3.
func CountsOf(status map[string]any) string {
	all := ""
	for _, field := range slices.Sorted(maps.Keys(status)) {
		low := strings.ToLower(field)
		if n, _ := status[field].(int64); n > 0 && (strings.HasPrefix(low, "failed") || strings.HasSuffix(low, "errors")) {
			all += fmt.Sprint(" ", field, "=", n)
		}
	}
	return strings.TrimPrefix(all, " ")
}

// unsynced finds the first object that Argo CD could not bring in step, and why.
func unsynced(status map[string]any) string {
	done, _ := status["operationState"].(map[string]any)
	result, _ := done["syncResult"].(map[string]any)
	parts, _ := result["resources"].([]any)
	for _, item := range parts {
		if part, _ := item.(map[string]any); String(part, "status") == "SyncFailed" ||
			String(part, "hookPhase") == "Failed" {
			return strings.ToLower(String(part, "kind")) + "/" + String(part, "name") + ": " + String(part, "message")
		}
	}
	return ""
}

// String is the string in a field; "" when it has none.
func String(m map[string]any, key string) string { s, _ := m[key].(string); return s }

// sentences are words that say of a phase told in a sentence that it is no good one.
var sentences = pattern.New(`(?i)\b(cannot|can't|not enough|unable|failed|failure|unrecoverable)\b`)

// ofSentence reads a phase that is a sentence, as CloudNativePG does.
func ofSentence(status map[string]any) Complaint {
	phase := String(status, "phase")
	if !strings.Contains(phase, " ") || !sentences.MatchString(phase) {
		return Complaint{}
	}
	c := Complaint{Says: "is not well", Want: "status.phase another word", Have: "status.phase=" + phase, Message: phase}
	if why := String(status, "phaseReason"); why != "" {
		c.Message += ": " + why
	}
	return c
}

// ofShape finds what is wrong by what is missing from the status, or by its numbers.
func ofShape(tree map[string]any) Complaint {
	spec, _ := tree["spec"].(map[string]any)
	status, has := tree["status"].(map[string]any)
	version, kind := String(tree, "apiVersion"), String(tree, "kind")
	connector, _ := status["connectorStatus"].(map[string]any)
	tasks, _ := connector["tasks"].([]any)
	for _, item := range tasks {
		if t, _ := item.(map[string]any); String(t, "state") == "FAILED" {
			return Complaint{Says: fmt.Sprintf("has a task, %v, that failed", t["id"]),
				Want: "status.connectorStatus.tasks[].state=RUNNING",
				Have: "status.connectorStatus.tasks[].state=FAILED", Message: String(t, "trace"), Final: true}
		}
	}
	if c := brokenPart(status); c.Says != "" {
		return c
	}
	flaws, _ := status["validationMessages"].([]any) // Istio's
	for _, item := range flaws {
		flaw, _ := item.(map[string]any)
		if code, _ := flaw["type"].(map[string]any); String(flaw, "level") == "ERROR" {
			return Complaint{Says: "is not valid", Want: "status.validationMessages empty", Have: "status.validationMessages set",
				Message: String(code, "name") + " (" + String(code, "code") + ")"}
		}
	}
	if parents, _ := spec["parentRefs"].([]any); has && len(parents) > 0 && strings.HasPrefix(version, "gateway.networking.k8s.io/") &&
		strings.HasSuffix(kind, "Route") {
		if taken, _ := status["parents"].([]any); len(taken) == 0 {
			first, _ := parents[0].(map[string]any)
			return Complaint{Says: "is taken up by none of its parents", Want: "status.parents[" + String(first, "name") + "]",
				Have:    "status.parents empty",
				Message: "no controller says that it serves it for " + cmp.Or(String(first, "name"), "its parent")}
		}
	}
	if ready, is := status["readyToUse"].(bool); is && !ready {
		return Complaint{Says: "is not ready to use", Want: "status.readyToUse=true", Have: "status.readyToUse=false"}
	}
	return tooFew(spec, status)
}

// tooFew is of what keeps a number of copies, as the subresource scale has them or in a project's own words, and tells how many of them
// are ready.
func tooFew(spec, status map[string]any) Complaint {
	wants, want := wanted(spec)
	field := ""
	for _, name := range []string{"readyReplicas", "replicas"} {
		if _, is := status[name].(int64); is && wants == "replicas" && field == "" {
			field = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(status)) { // as readyMembers
		rest, is := strings.CutPrefix(name, "ready")
		if _, counts := status[name].(int64); is && counts && copies.MatchString(strings.ToLower(rest)) && field == "" {
			field = name
		}
	}
	have, is := status[field].(int64)
	if wants == "" || !is || have >= want {
		return Complaint{}
	}
	what := strings.ToLower(strings.TrimPrefix(field, "ready"))
	says := fmt.Sprintf("has %d of %d %s", have, want, cmp.Or(what, "parts"))
	if strings.HasPrefix(field, "ready") {
		says += " ready"
	}
	return Complaint{Says: says, Want: fmt.Sprintf("spec.%s=%d", wants, want),
		Have: fmt.Sprintf("status.%s=%d", field, have), Message: cmp.Or(likeliest(status, false).Message, hint(status))}
}

// copies finds names of parts of which a number is kept.
var copies = pattern.New(`^(replicas?|members?|instances?|nodes?|pods?|servers?|brokers?|workers?|shards?|)$`)

// wanted is the field of a spec that says how many there are to be, if one alone does.
func wanted(spec map[string]any) (field string, n int64) {
	if n, is := spec["replicas"].(int64); is {
		return "replicas", n
	}
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		count, is := spec[name].(int64)
		if !is || name != "size" && (!copies.MatchString(name) || name == "") {
			continue
		}
		if field != "" {
			return "", 0
		}
		field, n = name, count
	}
	return field, n
}

// brokenPart finds in the lists of a status a part that has failed for good and says why: the whole may call itself ready all the same, as
// Strimzi's mirrors do whose connectors failed.
func brokenPart(status map[string]any) Complaint {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		list, _ := status[field].([]any)
		for i, item := range list {
			part, _ := item.(map[string]any)
			if PastFields.MatchString(field) {
				continue
			}
			for _, inner := range append([]map[string]any{part}, within(part)...) {
				word, why := cmp.Or(String(inner, "state"), String(inner, "phase")), MessageOf(inner)
				if !strings.EqualFold(word, "failed") && !strings.EqualFold(word, "error") || why == "" {
					continue
				}
				path := fmt.Sprintf("status.%s[%s].state", field, nameOfPart(part, i))
				return Complaint{Says: "has a part of its " + field + ", " + nameOfPart(part, i) + ", that failed",
					Want: path + "=another word", Have: path + "=" + word, Message: why}
			}
		}
	}
	return Complaint{}
}

// rootOf takes out of a trace of Java's what it begins with and the cause at its end; other texts stay as they are.
func rootOf(text string) string {
	head, rest, is := strings.Cut(text, "\n\tat ")
	if !is {
		return text
	}
	if at := strings.LastIndex(rest, "Caused by: "); at >= 0 {
		cause, _, _ := strings.Cut(rest[at+len("Caused by: "):], "\n")
		return head + ": " + cause
	}
	return head
}

// failedPart finds a part of the status that has failed and says no more than that.
func failedPart(status map[string]any) Complaint {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		part, _ := status[field].(map[string]any)
		if word := String(part, "state"); strings.EqualFold(word, "failed") && !PastFields.MatchString(field) && len(part) > 1 {
			return Complaint{Says: "has its " + field + " failed", Want: "status." + field + ".state another word",
				Have: "status." + field + ".state=" + word, Message: cmp.Or(MessageOf(part), CountsOf(part))}
		}
	}
	return Complaint{}
}

// within are the parts of a part.
func within(part map[string]any) (list []map[string]any) {
	for _, field := range slices.Sorted(maps.Keys(part)) {
		if inner, is := part[field].(map[string]any); is && !PastFields.MatchString(field) {
			list = append(list, inner)
		}
	}
	return list
}
