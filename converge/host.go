package converge

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
)

// A program has the name of a service in its variables or arguments, or in a ConfigMap from which it has its variables.

// hostOf finds a name where it is that of a host: alone, or in a URL, an address or a list of them.
func hostOf(name string) *regexp.Regexp {
	return regexp.MustCompile(`(^|[/@,=\s"])` + regexp.QuoteMeta(name) + `($|[:./,;\s"])`)
}

// rehost is the command that puts the name of a service in the place of another one in the variables and arguments of a pod template, or
// in a ConfigMap from which it has variables; "": it is in none, or in too many.
func rehost(l *Look, old, name string) string {
	k, obj := l.Template()
	if obj == nil || !slices.Contains(remade, k.Info().GVK.Kind) || !plainName.MatchString(old+name) {
		return ""
	}
	var tree map[string]any
	data, err := json.Marshal(obj)
	if err != nil || json.Unmarshal(data, &tree) != nil {
		return ""
	}
	var ops []Change
	host, maps := hostOf(old), []string(nil)
	placesOf(tree["spec"], "/spec", 0, func(path string, beside map[string]any, text string) {
		switch {
		case hostIn.MatchString(path) && host.MatchString(text):
			ops = append(ops, Put(path, host.ReplaceAllString(text, "${1}"+name+"${2}")))
		case mapIn.MatchString(path):
			maps = append(maps, text)
		}
	})
	if len(ops) > 0 && len(ops) <= 4 {
		return Patched(RefTo(k, obj), ops...)
	}
	for _, from := range slices.Compact(maps) {
		if command := inMap(l, from, host, name); command != "" && len(ops) == 0 && k.Info().GVK.Kind != "CronJob" {
			return command + " && kubectl rollout restart " + word(k) + " " + Called(&Look{Obj: obj})
		}
	}
	return ""
}

var (
	// hostIn and mapIn find the paths of variables and arguments, and of the names of ConfigMaps from which there are variables.
	hostIn = regexp.MustCompile(`/env/\d+/value$|/(?:args|command)/\d+$`)
	mapIn  = regexp.MustCompile(`/configMap(?:Key)?Ref/name$`)
)

// inMap is the command that puts the name in the values of a ConfigMap; "": it has not the other.
func inMap(l *Look, from string, host *regexp.Regexp, name string) string {
	k, ok := l.Kinds.GR(schema.GroupResource{Resource: "configmaps"})
	if !ok {
		return ""
	}
	obj := l.Read.Lookup(k, l.Obj.GetNamespace(), from)
	if obj == nil {
		return ""
	}
	var tree map[string]any
	data, err := json.Marshal(obj)
	if err != nil || json.Unmarshal(data, &tree) != nil {
		return ""
	}
	values, _ := tree["data"].(map[string]any)
	to := map[string]string{}
	for key := range values {
		if text := words.String(values, key); host.MatchString(text) && !strings.Contains(text, "\n") {
			to[key] = host.ReplaceAllString(text, "${1}"+name+"${2}")
		}
	}
	if len(to) == 0 {
		return ""
	}
	return Merged(RefTo(k, obj), to, "data")
}
