package general

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	// apart finds words by which copies that must not be beside each other find no nodes.
	apart = pattern.New(`(?i)anti-?affinity|no available nodes?|not enough nodes|insufficient (?:number of )?nodes|too few nodes|` +
		`replica scheduling`)
	// copies finds fields that say how many there are to be.
	copies = pattern.New(`(?i)^(?:numberOf)?replicas$|^(?:replica|replication)(?:s|Count|Factor)?$|^instances$|^size$`)
)

// tooFewNodes tells of an object that wants more copies than there are nodes, where its controller says that they may not be beside each
// other.
func tooFewNodes(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked {
		return
	}
	if m := onlySo.FindStringSubmatch(message); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 32)
		askForLess(l, f, tree, n, m[2], message)
		return
	}
	if !apart.MatchString(message) || !l.Sees(core.Nodes, "") {
		return
	}
	well := int64(0)
	for _, n := range resource.List(l.Read, core.Nodes, "") {
		if !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			well++
		}
	}
	askForLess(l, f, tree, well, "node", "")
}

// onlySo finds that there are fewer of something than is wanted: only 1 broker(s) are registered.
var onlySo = pattern.New(`\bonly (\d+) (?:alive |available |live )?([a-z]+?)(?:\(s\)|s)? (?:is|are)\b`)

// askForLess advises to have fewer copies than the spec asks for. A message counts only with that number in it.
func askForLess(l *converge.Look, f *converge.Finding, tree map[string]any, well int64, of, message string) {
	spec, _ := tree["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		want, is := spec[field].(int64)
		if !is || !copies.MatchString(field) || want <= well || well == 0 || message != "" && !words.StandsIn(message, fmt.Sprint(want)) {
			continue
		}
		command := settle(l, []string{"spec", field}, strconv.FormatInt(well, 10))
		if strings.Contains(strings.Join(f.Advice, "\n"), command) { // another rule has read the numbers
			return
		}
		f.Says = strings.TrimSuffix(f.Says, ".") + fmt.Sprintf("; spec.%s is %d, with %s", field, want, words.Count(int(well), of))
		f.State, f.Next = converge.Blocked, converge.PersonDoes("adds a %s, or asks for fewer; %s goes on then", of, f.Owner)
		f.Advice = append([]string{"add a " + of + ", or have no more of them than that: " + command}, f.Advice...)
		return
	}
}
