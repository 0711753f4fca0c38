package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/pattern"
)

// A Complaint has what the status of a custom resource says is wrong with it. The zero value is none.
type Complaint struct {
	Says, Want, Have string
	Message, Reason  string // the controller's own words
	Since            time.Time
	Final            bool // the controller does not go on by itself
}

// A badCondition is a condition that says that something is wrong when it has the value.
type badCondition struct {
	typ, value, says string
	reason           string // the only one that counts; "": any
}

// badConditions are those that operators agree on, the most telling first. Ready and the like have their meaning from the
// conventions of the API; Stalled and Reconciling are kstatus'; Succeeded is Tekton's and Knative's; Accepted, Programmed,
// ResolvedRefs and Conflicted are the Gateway API's; Synced is Crossplane's.
var badConditions = []badCondition{
	{"Stalled", "True", "is stalled", ""}, {"Failed", "True", "failed", ""}, {"Failure", "True", "failed", ""},
	{"Succeeded", "False", "failed", ""},
	{"Reconciling", "True", "is being worked on", ""},
	{"PodScheduled", "False", "has a pod that fits on no node", ""}, {"Scheduled", "False", "has a part that fits nowhere", ""},
	{"ElasticsearchIsReachable", "False", "can't be reached", ""}, {"ConfigUnsupported", "True", "asks for what can't be", ""},
	{"NoPodsMatched", "True", "matches no pod", ""},
	{"NoMatchingInstance", "True", "matches nothing", ""}, {"CatalogSourcesUnhealthy", "True", "has sources that are not healthy", ""},
	{"Accepted", "False", "is not accepted", ""}, {"Conflicted", "True", "is in conflict with another one", ""},
	{"ResolvedRefs", "False", "names what is not there, or may not be named", ""},
	{"Synced", "False", "is not in step with what it stands for", ""}, {"ReconcileError", "True", "can't be brought about", ""},
	{"ReconcileSuccess", "False", "can't be brought about", ""},
	{"ReconcileSucceeded", "False", "can't be brought about", ""}, {"Error", "True", "has an error", ""},
	{"Launched", "False", "was not started", ""}, {"Available", "False", "is not available", ""}, {"Degraded", "True", "is degraded", ""},
	{"Ready", "False", "is not ready", ""},
	{"NotReady", "True", "is not ready", ""}, {"AllReplicasReady", "False", "has replicas that are not ready", ""},
	{"ClusterAvailable", "False", "is not available", ""}, {"Reconciled", "False", "can't be brought about", ""},
	{"Healthy", "False", "is not healthy", ""}, {"Programmed", "False", "is not in force", ""},
	{"Valid", "False", "is not valid", ""},
	{"ErrorOccurred", "True", "has an error", ""}, {"ResolutionFailed", "True", "can't be resolved", ""}, {"Installed", "False",
		"is not installed", ""},
	{"InstallPlanPending", "True", "waits for somebody to approve it", "RequiresApproval"},
	{"QuotaReserved", "False", "waits for quota", ""}, {"Available", "Degraded", "is available in part", ""},
	{"ContinuousArchiving", "False", "does not archive what it writes", ""}, {"LastBackupSucceeded", "False",
		"has no backup since one failed", ""},
	{"Fallback", "True", "goes by its fallback", ""},
	{"Ready", "Unknown", "is not known to be ready", ""},
	{"Accepted", "Unknown", "waits to be accepted", ""},
	{"Programmed", "Unknown", "waits to be put in force", ""},
	{"Issuing", "False", "can't be renewed", "Failed"}, {"Succeeded", "Unknown", "waits to start", "Pending"},
	{"MountPropagation", "False", "can't hand on its mounts", ""}, {"Schedulable", "False", "takes nothing more", ""},
	{"Healthy", "Unknown", "is not known to be healthy", ""}, {"NodeHealthy", "False", "has no node yet", "NodeProvisioning"},
}

// badPhases are the words by which a phase or a state says that something is wrong; final ones do not change by themselves.
var badPhases = map[string]struct {
	says  string
	final bool
}{
	"failed": {"failed", true}, "failure": {"failed", true}, "error": {"has an error", true}, "errored": {"has an error", true},
	"partiallyfailed":  {"failed in part", true},
	"failedvalidation": {"is not valid", true}, "invalid": {"is not valid", true}, "unavailable": {"is not available", false},
	"createfailed": {"failed", true}, "updatefailed": {"failed", true}, "syncfailed": {"failed", true}, "addfailed": {"failed", true},
	"finalizingpartiallyfailed": {"failed in part", true}, "degraded": {"is degraded", false},
	"faulted": {"has no copy that can be used", false}, "unhealthy": {"is not healthy", false}, "missing": {"is not there", false},
	"health_err": {"is not healthy", false}, "red": {"is not healthy", false}, "stalled": {"is stalled", true},
	"crashloopbackoff":   {"crashes again and again", false},
	"errorunschedulable": {"fits on no node", false}, "errimagepull": {"can't pull its image", false},
	"imagepullbackoff": {"can't pull its image", false},
	"abnormal":         {"is not well", false},
	"notready":         {"is not ready", false}, "health_warn": {"has a warning", false}, "warning": {"has a warning", false},
	"yellow":           {"has copies that are not in place", false},
	"requiresapproval": {"waits for somebody to approve it", false},
	"errorpvcnotfound": {"uses a claim that does not exist", false}, "datavolumeerror": {"has a data volume that failed", false},
}

// phaseFields are the fields in which operators say a word about the whole: most, then Argo CD, Elastic, Rook, KubeVirt, Longhorn, Spark,
// Strimzi's connectors, Zalando's PostgreSQL, Terraform's workspaces.
var phaseFields = [][]string{{"phase"}, {"state"}, {"status"}, {"operationState", "phase"}, {"health", "status"}, {"health"},
	{"ceph", "health"}, {"printableStatus"}, {"robustness"}, {"applicationState", "state"},
	{"connectorStatus", "connector", "state"}, {"PostgresClusterStatus"}, {"runStatus", "status"}}

// messageFields are the fields that hold the message of a phase.
var messageFields = []string{"message", "reason", "error", "failureMessage", "failureReason", "errorMessage", "lastError", "trace",
	"detail", "validationErrors", "errors"}

// roomless finds phases by which a disk is full.
var roomless = pattern.New(`(?i)\b(?:not enough|insufficient|out of|no) (?:free |available )?(?:disk|storage|space)`)

// ComplaintIn finds what a status says is wrong: by a condition, by one of a part of it, by a word, or by an error.
func ComplaintIn(tree map[string]any) Complaint {
	c := complaintAt(tree, 0)
	c.Message += ofChild(tree, c.Message)
	status, _ := tree["status"].(map[string]any)
	if phase := String(status, "phase"); c.Says != "" && roomless.MatchString(phase) && !strings.Contains(c.Message, phase) {
		c.Message = strings.TrimSuffix(phase+": "+c.Message, ": ") // whatever else fails follows from that
	}
	if c.Says != "" && c.Message != "" {
		c.Message += failures(status, c.Message)
	}
	if c.Says == "" || Faulty.MatchString(c.Message) && strings.ContainsAny(c.Message, `:"'/=0123456789`) && !pointsTo(status, c.Message) {
		return c
	}
	if strings.HasSuffix(c.Reason, "NotFound") && !Faulty.MatchString(c.Message) && strings.Contains(c.Message, " ") {
		c.Message += " (" + c.Reason + ")"
	}
	if part := WithinStatus(status, deepest-3, older); part.Says != "" && !strings.Contains(c.Says, " by its ") &&
		(c.Message == "" || !strings.Contains(c.Message, part.Message)) {
		c.Message = strings.TrimPrefix(c.Message+"; it "+part.Says+": "+part.Message, "; it ") // it says too little of the whole
	}
	return c
}

// failures adds the reason of the first that a list of what failed has, as failedNamespaces of a ClusterExternalSecret.
func failures(status map[string]any, message string) string {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		list, _ := status[field].([]any)
		if !strings.HasPrefix(field, "failed") || len(list) == 0 {
			continue
		}
		one, _ := list[0].(map[string]any)
		if why := cmp.Or(String(one, "message"), String(one, "reason")); why != "" && !strings.Contains(message, why) {
			return "; of its " + field + ": " + strings.TrimPrefix(cmp.Or(String(one, "namespace"), String(one, "name"))+": "+why, ": ")
		}
	}
	return ""
}

// pointsTo says that a message has the name of a part of its status: there one has to look.
func pointsTo(status map[string]any, message string) bool {
	for field, v := range status {
		if len(field) > 6 && !simple(v) && field != "conditions" && StandsIn(message, field) {
			return true
		}
	}
	return false
}

// ofChild adds the words of a part of a status that a message names, as "child 'x' errored" does.
func ofChild(tree map[string]any, message string) string {
	status, _ := tree["status"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(status)) {
		parts, _ := status[field].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			part, _ := parts[name].(map[string]any)
			if more := String(part, "message"); more != "" && len(name) > 3 && StandsIn(message, name) &&
				!strings.Contains(message, more) &&
				!PastFields.MatchString(field) {
				return ": " + more
			}
		}
	}
	return ""
}

// deepest bounds how far down the parts of a status are read: anybody may nest them.
const deepest = 8

func complaintAt(tree map[string]any, depth int) Complaint {
	status, _ := tree["status"].(map[string]any)
	if c := ofConditions(status, "status"); c.Says != "" {
		return c
	}
	if c := ofPhases(status); c.Says != "" {
		return c
	}
	if c := ofParts(status); c.Says != "" {
		return c
	}
	for _, field := range []string{"failureMessage", "errorMessage"} { // as a Machine of the Cluster API has it
		if text, _ := status[field].(string); text != "" {
			return Complaint{Says: "failed", Want: "status." + field + " empty", Have: "status." + field + " set", Message: text,
				Final: true}
		}
	}
	if c := pendingFor(status); c.Says != "" {
		return c
	}
	if e, ok := status["error"].(map[string]any); ok { // as a VolumeSnapshot has it
		if text, _ := e["message"].(string); text != "" {
			return Complaint{Says: "has an error", Want: "status.error empty", Have: "status.error set", Message: text}
		}
	}
	if c := ofShape(tree); c.Says != "" {
		return c
	}
	if c := guessed(tree); c.Says != "" {
		return c
	}
	if c := failedPart(status); c.Says != "" && depth == 0 {
		return c
	}
	if SaysWell(status) || depth == deepest {
		return Complaint{}
	}
	return WithinStatus(status, depth+1, PastFields)
}

// PastFields are fields in which something stands that was; older are those of them that count even for an object that is not well.
var (
	PastFields = pattern.New(`(?i)history|last|previous|old|attempt|conditions|transition`)
	older      = pattern.New(`(?i)history|previous|old|attempt|conditions`)
)

// WithinStatus looks for a complaint that has words in the parts of a status, each read as if it were a status of its own.
func WithinStatus(status map[string]any, depth int, past *pattern.Pattern) (c Complaint) {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		if past.MatchString(field) {
			continue
		}
		parts, several := status[field].([]any)
		if !several {
			parts = []any{status[field]}
		}
		for i, item := range parts {
			part, is := item.(map[string]any)
			if !is {
				continue
			}
			c = complaintAt(map[string]any{"status": part}, depth)
			if c.Message == "" && !strings.HasSuffix(c.Have, "conditions[Ready]=False") {
				continue
			}
			path := field
			if several {
				path += "[" + nameOfPart(part, i) + "]"
			}
			c.Have, c.Want = "status."+path+strings.TrimPrefix(c.Have, "status"), "status."+path+strings.TrimPrefix(c.Want, "status")
			says, inner, _ := strings.Cut(c.Says, " by its ")
			c.Says, c.Final = strings.TrimSuffix(says+" by its "+path+", "+inner, ", "), false
			return c
		}
	}
	return Complaint{}
}

// pendingFor is of an object that says that it waits, and for what: one that only waits may well be on its way.
func pendingFor(status map[string]any) Complaint {
	for _, field := range []string{"phase", "state"} {
		word, _ := status[field].(string)
		text, _ := status["reason"].(string)
		if more, _ := status["message"].(string); more != "" {
			text = more
		}
		if strings.EqualFold(word, "pending") && strings.Contains(text, " ") {
			return Complaint{Says: "is pending", Want: "status." + field + " another word", Have: "status." + field + "=" + word,
				Message: text}
		}
	}
	return Complaint{}
}

func ofConditions(status map[string]any, path string) Complaint {
	conds := ConditionsIn(status)
	if len(conds) == 0 {
		return Complaint{}
	}
	for _, bad := range badConditions {
		c, ok := conds[bad.typ]
		if !ok || !bad.is(c) {
			continue
		}
		if strings.Contains(c.Reason, "Paused") || c.Reason == "NoTraffic" || // as Knative has it of what is scaled to 0
			c.Reason == "BackupStarted" { // as CloudNativePG has it until it knows
			continue // on purpose, or not known yet
		}
		if ready := conds["Ready"]; bad.typ == "Reconciling" && ready.Status == "False" && ready.Message != "" {
			continue // it tries again: what it says of the last time is the news
		}
		c.Message = telling(conds, c)
		if phase := ofSentence(status); phase.Says != "" && restates(c) {
			c.Message = phase.Message
		}
		out := Complaint{Says: bad.says, Want: fmt.Sprintf("%s.conditions[%s]=%s", path, bad.typ, opposite(bad.value)),
			Have:    fmt.Sprintf("%s.conditions[%s]=%s", path, bad.typ, bad.value),
			Message: cmp.Or(c.Message, c.Reason), Reason: c.Reason, Since: c.Since()}
		if m := String(status, "message"); bad.value == "False" && m != "" && strings.Contains(m, c.Message) {
			out.Message = m
		}
		out.Final = bad.typ == "Stalled" || bad.typ == "Failed" || bad.typ == "Succeeded" && bad.value == "False"
		return out
	}
	for _, typ := range slices.Sorted(maps.Keys(conds)) { // an Application of Argo CD has conditions that are there or not
		if c := conds[typ]; c.Status == "" && strings.HasSuffix(typ, "Error") {
			return Complaint{Says: "has an error", Want: fmt.Sprintf("no %s.conditions[%s]", path, typ),
				Have: fmt.Sprintf("%s.conditions[%s]", path, typ), Message: strings.TrimSuffix(c.Message+" "+unsynced(status), " "),
				Since: c.Since()}
		}
	}
	return Complaint{}
}

// MessageOf is the message in a status, or the first of several.
func MessageOf(status map[string]any) string {
	for _, name := range messageFields {
		if list, _ := status[name].([]any); len(list) > 0 {
			first, _ := list[0].(map[string]any)
			if m := cmp.Or(String(map[string]any{"": list[0]}, ""), String(first, "message")); m != "" {
				return m
			}
		}
		if m := String(status, name); m != "" {
			return rootOf(m)
		}
		parts, _ := status[name].(map[string]any) // as KubeBlocks has messages by pod
		for _, of := range slices.Sorted(maps.Keys(parts)) {
			if m := String(parts, of); strings.Contains(of, "/") && m != "" {
				return of + ": " + m
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(status)) { // as lastSyncError
		more, _ := status[name].(map[string]any)
		m := cmp.Or(String(status, name), String(more, "message"))
		if why := String(more, "reason"); m == "" && strings.Contains(why, " ") { // as Camel K has a failure
			m = why
		}
		if m != "" && wrongWords.MatchString(name) {
			return m
		}
	}
	return ""
}

// wrongWords are parts of the names of fields that say what went wrong.
var wrongWords = pattern.New(`Error|Failure|Message$|^error$|^failure$`)

func opposite(value string) string {
	if value == "True" {
		return "False"
	}
	return "True"
}

// wordy finds fields of a status that hold a word about the whole by their names, as syncStatus, healthStatus and lifecycleState.
var wordy = pattern.New(`^[a-z]\w*(Status|State|Phase|Health)$`)

func ofPhases(status map[string]any) Complaint {
	fields := phaseFields
	for _, name := range slices.Sorted(maps.Keys(status)) {
		if wordy.MatchString(name) && (!PastFields.MatchString(name) || name == "lastObservedState") {
			fields = append(slices.Clip(fields), []string{name})
		}
	}
	for i, field := range fields {
		at := status
		for _, step := range field[:len(field)-1] {
			at, _ = at[step].(map[string]any)
		}
		word, _ := at[field[len(field)-1]].(string)
		bad, ok := badPhases[strings.ToLower(word)]
		if bad.says = cmp.Or(bad.says, WrongBy(word)); !ok && (bad.says == "" || ConditionsIn(status)["Ready"].Status == "True") {
			continue
		}
		path := "status." + strings.Join(field, ".")
		c := Complaint{Says: bad.says, Want: path + " another word", Have: path + "=" + word, Final: bad.final && i < len(phaseFields)}
		if len(field) > 1 {
			c.Message = hint(at)
		}
		for _, from := range []map[string]any{at, status} {
			c.Message = cmp.Or(c.Message, MessageOf(from))
		}
		if c.Message == "" {
			c.Message = cmp.Or(hint(status), CountsOf(status))
		}
		if more := unsynced(status); field[0] == "operationState" && !strings.Contains(c.Message, more) {
			c.Message += ": " + more
		}
		if strings.ToLower(word) != bad.says {
			c.Message = cmp.Or(c.Message, word)
		}
		return c
	}
	return ofSentence(status)
}

// ofParts looks for conditions in the lists of a status, as of parents of a route and listeners of a gateway.
func ofParts(status map[string]any) Complaint {
	for _, field := range slices.Sorted(maps.Keys(status)) {
		list, _ := status[field].([]any)
		byName, _ := status[field].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(byName)) { // as Longhorn has its disks
			part, is := byName[name].(map[string]any)
			if conds, bare := byName[name].([]any); bare { // as Kuadrant has the records of a policy
				part, is = map[string]any{"conditions": conds}, true
			}
			if is && part["conditions"] != nil {
				part = maps.Clone(part)
				part["name"] = name
				list = append(list, part)
			}
		}
		for i, item := range list {
			part, _ := item.(map[string]any)
			if part["conditions"] == nil {
				continue
			}
			name := nameOfPart(part, i)
			if c := ofConditions(part, fmt.Sprintf("status.%s[%s]", field, name)); c.Says != "" {
				c.Says += " by its " + strings.TrimSuffix(field, "s") + " " + name
				if field == "listeners" {
					c.Says = "has a listener, " + name + ", that " + strings.TrimSuffix(c.Says, " by its listener "+name)
				}
				return c
			}
		}
	}
	return Complaint{}
}

// nameOfPart names a part of a status.
func nameOfPart(part map[string]any, i int) string {
	ref, _ := part["parentRef"].(map[string]any)
	above, _ := part["ancestorRef"].(map[string]any)
	for _, name := range []any{part["name"], ref["name"], above["name"], part["controllerName"]} {
		if text, _ := name.(string); text != "" {
			return text
		}
	}
	return fmt.Sprint(i)
}
