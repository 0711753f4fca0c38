package words

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// What a controller complains of often stands, as it is, in the spec: the name of an image, a host, a version. There one has to look.

// deepestField bounds how deep a field of a spec is looked for.
const deepestField = 10

// UnknownKey finds a field that a schema does not know.
var UnknownKey = regexp.MustCompile(`(?i)(?:propert(?:y|ies)|unknown field|field|unknown key|key|parameter|option) ` +
	`["'\x60]?([a-z][\w-]{2,})["'\x60]? (?:is |are |was )?(?:not|unknown|unsupported|immutable|required|invalid)|` +
	`(?:^|[ .])([\w-]{3,}): field not declared`)

// SpokenField finds the field of a spec whose value, or name, the words repeat; the longest value of several. References to other objects
// are for others to judge.
func SpokenField(tree map[string]any, message string) (path, value string) {
	key := ""
	if m := UnknownKey.FindStringSubmatch(message); m != nil {
		key = cmp.Or(m[1], m[2])
	}
	meta, _ := tree["metadata"].(map[string]any)
	best := 3
	var walk func(at string, v any, depth int)
	walk = func(at string, v any, depth int) {
		switch v := v.(type) {
		case map[string]any:
			for _, field := range slices.Sorted(maps.Keys(v)) {
				if field == key {
					path, value, best = at+"."+field, "", 1<<20
				}
				if depth < deepestField && !strings.HasSuffix(field, "Ref") && !strings.HasSuffix(field, "Refs") {
					walk(at+"."+field, v[field], depth+1)
				}
			}
		case []any:
			for _, item := range v {
				walk(at+"[]", item, depth+1)
			}
		case string:
			if len(v) > best && v != String(meta, "name") && v != String(meta, "namespace") && telltale.MatchString(v) &&
				StandsIn(message, v) {
				path, value, best = at, v, len(v)
			}
		}
	}
	walk("spec", tree["spec"], 0)
	return path, value
}

// telltale is of values that are no plain words, which may stand in any sentence.
var telltale = regexp.MustCompile(`^[^\n]*[^a-zA-Z\n][^\n]*$`)

// StandsIn says that a word, or several, stand in a text as they are and not within longer ones.
func StandsIn(text, word string) bool {
	for at := 0; word != ""; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !letterOf(text[from-1])) && (to == len(text) || !letterOf(text[to])) {
			return true
		}
		at = to
	}
	return false
}

func letterOf(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
