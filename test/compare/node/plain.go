package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What differs between two clusters whatever the agents do, and what is said in its place.
var chances = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}| UTC|Z|[+-]\d\d:\d\d)*( m=\S+)?`), "TIME"},
	{regexp.MustCompile(`\b10\.88\.\d+\.\d+\b`), "PODIP"},
	{regexp.MustCompile(`\b10\.96\.\d+\.\d+\b`), "CLUSTERIP"},
	{regexp.MustCompile(`\b10\.201\.0\.[23]\b`), "HOSTIP"},
	{regexp.MustCompile(`"pod (IPs|IP)=[^"]*"`), "PODIP"},
	{regexp.MustCompile(`:\d{5}\b`), ":PORT"},
	{regexp.MustCompile(`/tmp/cmp/[AB]\b`), "DIR"},
	{regexp.MustCompile(`/cmp[AB]\b`), "/CGROUP"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|us)\b`), "DURATION"},
	{regexp.MustCompile(`in \d+(\.\d+)?m?s`), "in DURATION"},
	{regexp.MustCompile(`(condition PodReadyToStartContainers: )False PodSandboxNotReady → (True)`), "$1$2"}, // a row of differences.md
	{regexp.MustCompile(`containers/c/[0-9a-f]+\b`), "containers/c/ONE"},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-RANDOM"},
}

// unlimited stands in version 1 for the memory of a cgroup without a limit; a kubelet takes it for one.
const unlimited = "9007199254740988Ki"

// chosen are differences that docs/differences.md has a row for: starts that never were, and resizes that were done at once.
var chosen = regexp.MustCompile(`terminated\.startedAt = |^condition PodResizeInProgress: True $`)

// plain takes out of lines what is a matter of chance.
func (p *play) plain(lines []string) []string {
	made := make([]string, 0, len(lines))
	for _, l := range lines {
		if strings.Contains(l, unlimited) || strings.HasSuffix(l, ".resources = {}") {
			continue
		}
		for _, c := range chances {
			l = c.of.ReplaceAllString(l, c.as)
		}
		if !chosen.MatchString(l) {
			made = append(made, l)
		}
	}
	return made
}

// status is the status of the pod and what else the agent writes into it, a line for each value.
func (p *play) status(ctx context.Context) []string {
	data, err := p.client.CoreV1().RESTClient().Get().Resource("pods").Namespace(p.ns).Name(podName).DoRaw(ctx)
	if err != nil {
		return oneError(err)
	}
	var pod map[string]any
	if err := json.Unmarshal(data, &pod); err != nil {
		return oneError(err)
	}
	return flat(pod["status"], "", nil)
}

// flat has a line for each value of a tree. Elements of lists go by their name or type, if they have one.
func flat(tree any, at string, lines []string) []string {
	switch tree := tree.(type) {
	case map[string]any:
		names := make([]string, 0, len(tree))
		for name := range tree {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			lines = flat(tree[name], at+"."+name, lines)
		}
		if len(tree) == 0 {
			lines = append(lines, at+" = {}")
		}
		return lines
	case []any:
		for i, v := range tree {
			lines = flat(v, fmt.Sprintf("%s[%s]", at, key(v, i)), lines)
		}
		return lines
	}
	return append(lines, fmt.Sprintf("%s = %v", at, tree))
}

func key(element any, i int) string {
	m, _ := element.(map[string]any)
	for _, name := range []string{"name", "type", "mountPath"} {
		if s, ok := m[name].(string); ok {
			return s
		}
	}
	return fmt.Sprint(i)
}

// events are those that the agent sent, without how often.
func (p *play) events(ctx context.Context) (lines []string) {
	list, err := p.client.CoreV1().Events(p.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return oneError(err)
	}
	for _, e := range list.Items {
		from := e.Source.Component + "/" + e.ReportingController
		if strings.Contains(from, "scheduler") || strings.Contains(from, "controller") {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %s %s on %s %s: %s", from, e.Type, e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.FieldPath,
			e.Message))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// digest makes lines of an answer.
func digest(data []byte, as string) []string {
	var tree any
	switch as {
	case "families":
		var lines []string
		for _, l := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(l, "# TYPE ") {
				lines = append(lines, l)
			}
		}
		return lines
	case "flat", "paths":
		if err := json.Unmarshal(data, &tree); err != nil {
			return oneError(err)
		}
		lines := flat(tree, "", nil)
		if as == "paths" {
			for i, l := range lines {
				lines[i], _, _ = strings.Cut(l, " = ")
			}
			slices.Sort(lines)
			lines = slices.Compact(lines)
		}
		return lines
	}
	return split(string(data))
}

func cutQuery(path string) (string, map[string]string) {
	path, text, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(text)
	if err != nil {
		return path, nil
	}
	query := map[string]string{}
	for k := range values {
		query[k] = values.Get(k)
	}
	return path, query
}
