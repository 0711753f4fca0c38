package words

import (
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
)

// notGiven finds the parameter that somebody wants to be given.
var notGiven = pattern.New(`(?i)\b(?:missing|requires?|required|must (?:specify|provide|set|have))(?: the| a| an)?` +
	`(?: required| mandatory)? (?:parameter|field|property|key|option|value)s?:? ?[\['"\x60]+([a-z][\w.-]+)|` +
	`\b(?:no|missing) (?-i:([a-z]+[A-Z]\w+)) (?:given|set|provided|specified)\b|` +
	`['"\x60]([a-z]\w+)['"\x60] (?:is required|must be (?:set|given|provided|specified))`)

// Ungiven is the name of what the words say is not given; "": they are of nothing such.
func Ungiven(message string) string {
	m := notGiven.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[3]
}

// Typed is the part of a spec whose type or name the words have, and that; "" for none.
func Typed(tree map[string]any, message string) (path, value string) {
	low := strings.ToLower(message)
	var walk func(at string, v any, depth int)
	walk = func(at string, v any, depth int) {
		switch v := v.(type) {
		case map[string]any:
			for _, field := range []string{"type", "name"} {
				if text := String(v, field); path == "" && at != "spec" && len(text) > 2 && StandsIn(low, strings.ToLower(text)) {
					path, value = at, text
				}
			}
			for _, field := range slices.Sorted(maps.Keys(v)) {
				if depth < deepestField {
					walk(at+"."+field, v[field], depth+1)
				}
			}
		case []any:
			for _, item := range v {
				walk(at+"[]", item, depth+1)
			}
		}
	}
	walk("spec", tree["spec"], 0)
	return path, value
}

// Unset finds a variable of the environment that a program wants to be set.
var Unset = pattern.New(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b['"\x60]?[^\n]{0,30}(?:not set|[Rr]equired|[Mm]issing|not defined|` +
	`not provided|must be|unset|empty)|(?:nvironment variable|[Mm]issing|[Rr]equired|KeyError:?)[^A-Z\n]{0,30}` +
	`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b`)
