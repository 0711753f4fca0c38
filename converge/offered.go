package converge

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/internal/pattern"
)

// Who refuses a value often lists those that it takes: one of them goes in its place.

var (
	// offering finds the beginning of such a list.
	offering = pattern.New(`(?i)\b(?:available|supported|valid|allowed|possible|known|existing|permitted|accepted|offered|choose|one of|` +
		`has only|have only)\b[^:;.()\[\]/'"]{0,40}(?::|\bare\b:?|\bis\b:?|\[|\(|\bof\b:?) *\[?`)
	// refusing finds words by which a value does not do.
	refusing = pattern.New(`(?i)\bnot\b|n't\b|\binvalid|\bunknown|\bunsupported|\bmust\b|\bcannot\b|\bno such`)
	// offeredOne finds one value of it.
	offeredOne = pattern.New(`^["'\x60]?([A-Za-z0-9][\w./+-]{0,62})["'\x60]?$`)
	version    = pattern.New(`^v?\d+\.`)
	numberPart = pattern.New(`\d+`) // of a version
)

// maxOffered bounds the values of a list that are read.
const maxOffered = 40

// offered are the values that words list in place of another one.
func offered(message, in string) (list []string) {
	if !refusing.MatchString(message) {
		return nil
	}
	at := offering.FindAllStringSubmatchIndex(message, MaxLooks)
	for _, m := range at {
		rest := message[m[1]:]
		if end := strings.IndexAny(rest, "];)\n"); end >= 0 {
			rest = rest[:end]
		}
		rest = strings.NewReplacer(" and ", ",", " or ", ",", ", or ", ",", ", and ", ",", " | ", ",").Replace(rest)
		if bracket := message[m[1]-1]; !strings.Contains(rest, ",") && (bracket == '[' || bracket == '(') {
			rest = strings.ReplaceAll(rest, " ", ",") // as Go writes lists
		}
		for one := range strings.SplitSeq(rest, ",") {
			last := strings.Contains(one, ". ")
			one, _, _ = strings.Cut(strings.TrimSpace(one), ". ")
			v := offeredOne.FindStringSubmatch(strings.TrimRight(one, "."))
			if v == nil || len(list) == maxOffered {
				break
			}
			if v[1] != in && !slices.Contains(list, v[1]) {
				list = append(list, v[1])
			}
			if last {
				break
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// instead is advice to have one of the values that a message lists in the place of one of the object, with the command for each; nil: it
// lists none, or the value is not found where it can be changed.
func (l *Look) instead(value string, list []string) []string {
	if len(list) > 1 && !slices.ContainsFunc(list, func(v string) bool { return !isVersion(v) }) && isVersion(value) {
		coldsort.Func(list, func(a, b string) int {
			return cmp.Or(inCommon(b, value)-inCommon(a, value), versions(b, a))
		})
		list = list[:1] // the newest of those most like it
	}
	command := func(v string) string { return l.renaming(value, v, false, "", "") }
	if slices.ContainsFunc(list, func(v string) bool { return strings.Map(noDigit, v) == strings.Map(noDigit, value) }) {
		return Each(list, command) // of those that differ in their numbers none is likest
	}
	return Choices(value, list, command)
}

// InPlaceOf is advice to have one of a few values in the place of one of the object's spec, with the command for each.
func InPlaceOf(l *Look, value string, list []string) []string { return l.instead(value, list) }

// signs are those of a text that are no letters or digits: values that go in one place mostly have the same.
func signs(v string) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '/' || r == '_' || r == '+' || r == ':' {
			return r
		}
		return -1
	}, v)
}

func isVersion(v string) bool { return version.MatchString(v) }

// inCommon counts the numbers of two versions that are the same, from the left.
func inCommon(a, b string) (n int) {
	as, bs := numberPart.FindAllString(a, -1), numberPart.FindAllString(b, -1)
	for n < min(len(as), len(bs)) && as[n] == bs[n] {
		n++
	}
	return n
}

// versions compares two by their numbers.
func versions(a, b string) int {
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return slices.CompareFunc(numberPart.FindAllString(a, -1), numberPart.FindAllString(b, -1), func(x, y string) int {
		return cmp.Compare(number(x), number(y))
	})
}

// insteadSpoken is such advice for the text of the spec that the words of a controller have, and that is like those that they list.
func (l *Look) insteadSpoken(f *Finding) []string {
	message := words.ErrorText(f.Error)
	tree, _ := words.Tree(l.Obj)
	_, spoken := words.SpokenField(tree, message)
	if by, _, above := l.spokenAbove(message); by != nil {
		spoken = above
	}
	list := offered(message, spoken)
	if len(list) == 0 && undefined.MatchString(message) && spoken != "" {
		if meant := Likest(spoken, ownNames(tree["spec"], 0)); meant != "" {
			list = []string{meant}
		}
	}
	if len(list) == 0 {
		return nil
	}
	like := func(v string) bool {
		return v != "" && !slices.Contains(list, v) && slices.ContainsFunc(list, func(o string) bool { return signs(o) == signs(v) })
	}
	values := map[string]bool{}
	Paths(l.Obj, func(path, text string) bool {
		if like(text) && words.StandsIn(message, text) && !ownName.MatchString(path) {
			values[text] = true
		}
		return false
	})
	switch {
	case like(spoken):
	case len(values) == 1:
		spoken = slices.Collect(maps.Keys(values))[0]
	default:
		return nil
	}
	return l.instead(spoken, list)
}

// undefined finds words by which a name that a spec uses is not among those that it gives.
var undefined = pattern.New(`(?i)\bundefined\b|\bnot (?:be )?(?:found|defined|declared)\b|does not exist|` +
	`doesn't exist|\bunknown\b|\bno such\b`)

// OfOwn says that a name is like one that a spec gives to one of its parts, and that none has.
func OfOwn(tree map[string]any, name string) bool {
	own := ownNames(tree["spec"], 0)
	return !slices.Contains(own, name) && Likest(name, own) != ""
}

// ownNames are the names that a spec gives to its parts.
func ownNames(v any, depth int) (list []string) {
	if depth > MaxDepth {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			list = append(list, ownNames(v[field], depth+1)...)
		}
	case []any:
		for _, item := range v {
			if one, _ := item.(map[string]any); words.String(one, "name") != "" {
				list = append(list, words.String(one, "name"))
			}
			list = append(list, ownNames(item, depth+1)...)
		}
	}
	return list
}
