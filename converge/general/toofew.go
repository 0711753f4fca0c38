package general

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	// apart finds words by which copies that must not be beside each other find no nodes.
	apart = regexp.MustCompile(`(?i)anti-?affinity|no available nodes?|not enough nodes|insufficient (?:number of )?nodes|too few nodes`)
	// copies finds fields that say how many there are to be.
	copies = regexp.MustCompile(`(?i)^(?:numberOf)?replicas$|^(?:replica|replication)(?:s|Count|Factor)?$|^instances$|^size$`)
)

// tooFewNodes tells of an object that wants more copies than there are nodes, where its controller says that they may not be beside each
// other.
func tooFewNodes(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if len(f.Below) > 0 || f.State == converge.Blocked || !apart.MatchString(message) || !l.Sees(core.Nodes, "") {
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
	spec, _ := tree["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(spec)) {
		want, is := spec[field].(int64)
		if !is || !copies.MatchString(field) || want <= well || well == 0 {
			continue
		}
		f.Says = strings.TrimSuffix(f.Says, ".") + fmt.Sprintf("; spec.%s is %d, and nodes that take any there are %d", field, want, well)
		f.State, f.Next = converge.Blocked, converge.PersonDoes("adds a node, or asks for fewer; %s goes on then", f.Owner)
		f.Advice = append([]string{fmt.Sprintf("add a node, or have no more of them than nodes: kubectl patch %s %s --type=merge -p "+
			`'{"spec":{"%s":%d}}'`, l.Kind.Info().GR(), converge.Called(l), field, well)}, f.Advice...)
		return
	}
}
