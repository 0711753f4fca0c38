package words

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/internal/pattern"
)

// What a controller complains of often stands, as it is, in the spec: the name of an image, a host, a version. There one has to look.

// deepestField bounds how deep a field of a spec is looked for.
const deepestField = 10

// UnknownKey finds a field that a schema does not know.
var UnknownKey = pattern.New(`(?i)(?:propert(?:y|ies)|unknown field|field|unknown key|key|parameter|option) ` +
	`["'\x60]?([a-z][\w-]{2,})["'\x60]? (?:is |are |was )?(?:not|unknown|unsupported|immutable|required|invalid)|` +
	`(?:^|[ .])([\w-]{3,}): field not declared|(?:specified|given|requested|configured) ([a-z]\w+) (?:does|doesn|is|was|were)\b`)

// SpokenField finds the field of a spec whose value, or name, the words repeat; the longest value of several. References to other objects
// are for others to judge.
func SpokenField(tree map[string]any, message string) (path, value string) {
	key := ""
	if m := UnknownKey.FindStringSubmatch(message); m != nil {
		key = cmp.Or(m[1], cmp.Or(m[2], m[3]))
	}
	meta, _ := tree["metadata"].(map[string]any)
	best := 3
	var walk func(at string, v any, depth int)
	walk = func(at string, v any, depth int) {
		switch v := v.(type) {
		case map[string]any:
			for _, field := range slices.Sorted(maps.Keys(v)) {
				if field == key && key != "" {
					path, value, best = at+"."+field, "", 1<<20
				}
				inner, _ := v[field].(map[string]any) // remoteRef of external secrets is of no object here
				if depth < deepestField && (!strings.HasSuffix(field, "Ref") || inner["name"] == nil && inner != nil) &&
					!strings.HasSuffix(field, "Refs") && !strings.HasSuffix(field, "Names") {
					walk(at+"."+field, v[field], depth+1)
				}
			}
		case []any:
			for _, item := range v {
				walk(at+"[]", item, depth+1)
			}
		case int64: // as numVfs 64
			if field := at[strings.LastIndex(at, ".")+1:]; len(field) > 2 && StandsIn(message, fmt.Sprint(field, " ", v)) && best < 1<<14 {
				path, value, best = at, fmt.Sprint(v), 1<<14
			}
		case string:
			n := weight(at, v, message)
			if v == String(meta, "name") || v == String(meta, "namespace") {
				n = 0
			}
			if n >= 1<<13 && n>>12 == best>>12 && v != value { // both are named: which of them it is the words do not say
				path, value, best = path+" and "+at, "", max(n, best)
			} else if n > best {
				path, value, best = at, v, n
			}
		}
	}
	walk("spec", tree["spec"], 0)
	if at, v := pointed(tree["spec"], message); at != "" {
		return at, v
	}
	if path == "" {
		return hinted(tree["spec"], message)
	}
	return path, value
}

// weight tells how surely words speak of the value of a field: 0 if they do not have it, and more where it is in quotes, or the field's
// name stands before it, as in version matching '99.x'.
func weight(at, value, message string) int {
	if !StandsIn(message, value) {
		return 0
	}
	i, field := strings.Index(message, value), strings.TrimSuffix(at[strings.LastIndex(at, ".")+1:], "[]")
	quoted, n := false, 0
	for _, q := range []string{"'" + value + "'", `"` + value + `"`} { // of for 'a': no b, a is merely the place where it was looked for
		quoted = quoted || strings.Contains(strings.ReplaceAll(message, q+": ", ""), q)
	}
	if gone.MatchString(message[i+len(value):]) {
		n = 1 << 13
	}
	if len(field) > 2 && StandsIn(strings.ToLower(message[max(0, i-20):i]), strings.ToLower(field)) {
		n += 1 << 12
	}
	if quoted || strings.HasSuffix(strings.ToLower(field), "version") && misfit.MatchString(message) {
		n += 1 << 12
	}
	if n > 0 || telltale.MatchString(value) {
		n += len(value)
	}
	return n
}

// gone finds the words behind a name by which something is said not to be there.
var gone = pattern.New(`^['"\x60]? (?:does not exist|doesn't exist|not found|is missing|was not found)`)

// pointer finds a place in a document as JSON has it, in quotes: at '/image/tag'.
var pointer = pattern.New(`['"\x60]((?:/[\w-]+)+)['"\x60]`)

// pointed finds the field of a spec that ends as a pointer in the words does.
func pointed(spec any, message string) (path, value string) {
	m := pointer.FindStringSubmatch(message)
	if m == nil {
		return "", ""
	}
	end := strings.ReplaceAll(m[1], "/", ".")
	each("spec", spec, 0, func(at string, v any) {
		if path == "" && strings.HasSuffix(at, end) {
			path = at
			if _, inner := v.(map[string]any); !inner {
				value = fmt.Sprint(v)
			}
		}
	})
	return path, value
}

// inQuotes finds what a message has in quotes.
var inQuotes = pattern.New(`['"\x60]([^'"\x60\s]{3,})['"\x60]`)

// hinted finds the field of a spec in whose value something stands that the words have in quotes, as a file's name in a command, or whose
// name they spell out: outbound type of outboundType.
func hinted(spec any, message string) (path, value string) {
	var quoted, plain []string
	for _, m := range inQuotes.FindAllStringSubmatch(message, 8) {
		if telltale.MatchString(m[1]) && len(m[1]) > 4 {
			quoted = append(quoted, m[1])
		}
		plain = append(plain, m[1])
	}
	if misfit.MatchString(message) {
		quoted = append(quoted, versions.FindAllString(message, 2)...)
	}
	low := strings.ToLower(message)
	named, of, meant, within, whole := "", "", "", "", ""
	each("spec", spec, 0, func(at string, v any) {
		text, is := v.(string)
		if is && path == "" && slices.ContainsFunc(quoted, func(q string) bool { return strings.Contains(text, q) }) {
			path, value = at, text
		}
		field := strings.TrimSuffix(at[strings.LastIndex(at, ".")+1:], "[]")
		if is && within == "" && slices.ContainsFunc(plain, func(q string) bool { return slices.Contains(segments(text), q) }) {
			within, whole = at, text
		}
		if simple(v) && field != strings.ToLower(field) && StandsIn(message, field) && len(field)+1 > len(of) {
			named, meant, of = at, fmt.Sprint(v), field+" " // as it is written, as maxUnhealthy
		}
		spelled := strings.ToLower(humps.ReplaceAllString(field, "$1 $2"))
		alone := strings.Count(at, ".") == 1 && len(spelled) > 4 && simple(v) && misshapen.MatchString(message)
		if simple(v) && (strings.Contains(spelled, " ") || alone) && len(spelled) > len(of) && StandsIn(low, spelled) {
			named, meant, of = at, fmt.Sprint(v), spelled
		}
	})
	switch {
	case path != "":
		return path, value
	case named != "":
		return named, meant
	}
	return within, whole
}

// SpokenKey finds the field of a spec whose name words have in quotes, where people choose such names; "": none.
func SpokenKey(spec any, message string) (path string) {
	for _, m := range inQuotes.FindAllStringSubmatch(message, 8) {
		each("spec", spec, 0, func(at string, _ any) {
			if path == "" && strings.Count(at, ".") > 1 && telltale.MatchString(m[1]) && strings.HasSuffix(at, "."+m[1]) {
				path = at
			}
		})
	}
	return path
}

// segments are the parts of a path or an address.
func segments(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("/:@,", r) })
	if len(list) < 2 {
		return nil
	}
	return list
}

var (
	// misfit finds words by which one version does not go with another; versions finds those.
	misfit   = pattern.New(`(?i)(higher|lower|newer|older|greater|less) than|downgrad|version skew|version \S+ is not`)
	versions = pattern.New(`\b\d+\.\d+\.\d+\b`)
)

// misshapen finds words by which a value can't be read as what it is to be.
var misshapen = pattern.New(`(?i)malformed|\binvalid|not valid|can't parse|cannot parse|parse error|unsupported|out of range`)

// simple says that a value is no list and no map.
func simple(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// humps finds where words of a field's name meet.
var humps = pattern.New(`([a-z0-9])([A-Z])`)

// SpelledField finds the field of a spec, or a group of fields, whose name of two words or more a message spells out: pod identity of
// podIdentity.
func SpelledField(spec any, message string) (path string) {
	low, of := strings.ToLower(message), ""
	each("spec", spec, 0, func(at string, _ any) {
		spelled := strings.ToLower(humps.ReplaceAllString(strings.TrimSuffix(at[strings.LastIndex(at, ".")+1:], "[]"), "$1 $2"))
		if strings.Contains(spelled, " ") && len(spelled) > len(of) && StandsIn(low, spelled) {
			path, of = at, spelled
		}
	})
	return path
}

// each goes through what is in a value, in order.
func each(at string, v any, depth int, see func(at string, v any)) {
	see(at, v)
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			if depth < deepestField {
				each(at+"."+field, v[field], depth+1, see)
			}
		}
	case []any:
		for _, item := range v {
			each(at+"[]", item, depth+1, see)
		}
	}
}

// telltale is of values that are no plain words, which may stand in any sentence.
var telltale = pattern.New(`^[^\n]*[^a-zA-Z\n][^\n]*$`)

// StandsIn says that a word, or several, stand in a text as they are and not within longer ones.
func StandsIn(text, word string) bool {
	for at := 0; word != ""; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		from, to := at+i, at+i+len(word)
		if (from == 0 || !letterOf(text[from-1])) && (to == len(text) || !letterOf(text[to]) || !letterOf(word[len(word)-1])) {
			return true
		}
		at = to
	}
	return false
}

func letterOf(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
